"""Words: what a sentence claims, how it is said, and the vocabulary that captioners write with."""
