"""`narrated replay` and `narrated demo`: recorded footage in, the same record at every run out."""
