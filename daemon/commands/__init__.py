"""The verbs of the command line, one a file; each loads what it needs when it is called."""
