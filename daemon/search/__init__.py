"""Asking the journals: an index beside them, filters, plain questions, and the shapes of an answer."""
