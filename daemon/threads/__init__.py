"""The daemon's threads: cameras fill a queue, the narrator empties it, others publish, sign and tidy up."""
