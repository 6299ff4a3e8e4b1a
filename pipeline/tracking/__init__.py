"""Tracking: one tracker a camera for its whole life; events at the ends and turns of tracks."""

from pipeline.tracking.suppression import LOW
from pipeline.tracking.tracker import Tracker, TrackerSettings
from pipeline.tracking.types import Event, Observation, Track

__all__ = ["LOW", "Event", "Observation", "Track", "Tracker", "TrackerSettings"]
