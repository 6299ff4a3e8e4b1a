"""Tracking: one tracker a camera for its whole life; events at the ends and turns of tracks."""

from pipeline.tracking.tracker import Tracker
from pipeline.tracking.tracks import Event, Observation, Track

__all__ = ["Event", "Observation", "Track", "Tracker"]
