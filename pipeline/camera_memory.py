"""What a live camera keeps on disk, to continue after a restart."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from pathlib import Path

from pipeline.disk import replace_file
from pipeline.narration.narration import FrameStamp
from pipeline.record import format_time

logger = logging.getLogger(__name__)

_SCHEMA = "narrated-camera/1"


class CameraMemory:
    """The last frame that was seen, in a file that is replaced as a whole.

    A disk that fails costs the memory, never the watching.

    Args:
        path: of the file; its folder is made.

    Attributes:
        seen: the last frame that was seen, also by an earlier process; None before the first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed = False
        self.seen = self._load()

    def _load(self) -> FrameStamp | None:
        try:
            seen = json.loads(self._path.read_bytes())
            if seen.pop("schema") != _SCHEMA:
                return None
            return FrameStamp(datetime.fromisoformat(seen["time"]), int(seen["pts"]), str(seen["sha256"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning("%s cannot be read (%s): the camera begins anew", self._path, error)
            return None

    def save(self, seen: FrameStamp) -> None:
        """Replace what is kept."""
        self.seen = seen
        members = {"schema": _SCHEMA, "time": format_time(seen.time), "pts": seen.pts, "sha256": seen.sha256}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(members).encode(), durable=False, mode=0o640)
            self._failed = False
        except OSError as error:
            if not self._failed:
                logger.warning("%s cannot be written: %s", self._path, error.strerror or error)
            self._failed = True
