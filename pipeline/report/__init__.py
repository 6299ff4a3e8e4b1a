"""The report: what a replay writes for people to look at."""
