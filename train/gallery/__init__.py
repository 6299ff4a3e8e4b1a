"""The gallery: what a captioner tells of unseen cameras, on a page to be read by eye."""
