"""How the body of a tool runs: in which thread or task, and until when."""
