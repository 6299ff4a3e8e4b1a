"""Sentences: facts, statements, templates and places."""
