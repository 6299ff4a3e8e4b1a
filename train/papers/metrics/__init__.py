"""Scores of captions: by the field's own scorer, and by the correctness of their claims."""
