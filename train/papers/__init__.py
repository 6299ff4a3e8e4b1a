"""The papers' laboratory: their data, their tables, and fair comparisons."""
