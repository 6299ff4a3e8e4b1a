"""Sentences: statements, templates and places."""
