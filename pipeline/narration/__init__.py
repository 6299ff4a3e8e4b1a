"""Narrations: from changes to sentences; the only place where pictures become tensors."""
