"""The configuration: its sections and keys, how it is read and read again, and what it means for a camera."""
