"""The report: pages, subtitles and pictures for people."""
