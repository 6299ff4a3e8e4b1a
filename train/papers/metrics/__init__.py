"""Scores of captions: by the field's own scorer, and by whether what is said is right."""
