"""Scores of captions: by words, by the field's own scorer, and by whether what is said is right."""
