"""The captioners of the papers, one paper a file, and what several of them share."""
