"""`narrated export`: a selection of narrations as one folder or zip that can be checked without us."""
