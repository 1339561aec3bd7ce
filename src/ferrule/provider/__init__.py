"""Model providers: what each of them takes and gives on the wire."""
