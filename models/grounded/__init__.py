"""The grounded captioner: sees absolutely, links and follows, decides, and only then finds the words."""
