"""`narrated run`: everything put together, kept running and put away again."""
