"""Frames in, narrations out: the one path that live, replay and training-set extraction share."""
