"""`narrated export`: a selection of narrations as a folder or zip that can be verified without narrated."""
