"""Point tracks: what was where between the frames of a pair, followed through the frames in between."""

from pipeline.tracks.points import MAX_POINTS, Tracks, point_tracks

__all__ = ["MAX_POINTS", "Tracks", "point_tracks"]
