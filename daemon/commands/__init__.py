"""The verbs of the command line; each loads what it needs when it is called."""
