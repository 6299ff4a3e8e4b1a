"""The commands of `narrated-train`, one a file."""
