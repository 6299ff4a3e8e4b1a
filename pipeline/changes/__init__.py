"""Changes: from a frame pair to its aligned difference mask, clusters and salience."""

from pipeline.changes.change import Change, SceneEvent, find_changes, image_changes
from pipeline.changes.difference import ChangeOptions

__all__ = ["Change", "ChangeOptions", "SceneEvent", "find_changes", "image_changes"]
