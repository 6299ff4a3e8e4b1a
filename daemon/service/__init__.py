"""`narrated run`: startup, main loop and shutdown."""
