"""Changes: from a frame pair to its aligned difference mask, clusters and salience."""

from pipeline.changes.change import Change, find_changes, image_changes, salience_features
from pipeline.changes.difference import ChangeOptions
from pipeline.changes.scene import SceneEvent, scene_event

__all__ = [
    "Change", "ChangeOptions", "SceneEvent", "find_changes", "image_changes", "salience_features",
    "scene_event",
]  # fmt: skip
