"""What happened in a run, as records: appended only, in order."""
