"""The verbs of the command line, by what they do; each loads what it needs when it is called."""
