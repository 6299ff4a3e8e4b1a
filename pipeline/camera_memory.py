"""The state of a live camera on disk, from which it continues after a restart."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.disk import replace_file
from pipeline.loop import Faults
from pipeline.narration.narration import FrameStamp
from pipeline.record_format import format_time
from pipeline.scenery import Scenery
from pipeline.tracking.types import LastSeen

logger = logging.getLogger(__name__)

CAMERA_MEMORY = "cameras"  # their folder, beside the journals'; files are named by camera
BEGUN = "begun"  # a folder in it: what each had learnt when the daemon began, which its records name
_SCHEMA = "narrated-camera/1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CameraMemory:
    """The last frame that was seen, tracks, scenery, doors and usual events, in a file replaced as a whole.

    A disk that fails costs the memory, never the watching: the file stays as it was, with a time of
    modification of 0 as the mark of it. `content` is that of another file to begin with.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self._path, self._faults = path, Faults()
        self.seen: FrameStamp | None = None  # the last frame, also an earlier process's
        self.tracks: dict[str, Any] | None = None  # state of an earlier process's tracker
        self.scenery = Scenery()
        self.doors: list[dict[str, Any]] = []
        self.present: list[LastSeen] = []  # by the record: who came, and has not left
        self.minutes: list[Mapping[str, int]] = []  # events by kind, see `MinuteSummary`
        self.is_stale = False  # what an earlier process did later could not be written
        self.masks = self.sha256 = ""  # day and areas of the last record of masks; hash of the loaded file
        try:
            content = path.read_bytes() if content is None else content
            kept = json.loads(content)[_SCHEMA]
            time = datetime.fromisoformat(kept["time"])
            # the steady clock tells how long narrated was away, whatever the wall clock says: until a reboot
            steady_s = float(kept["steady_s"]) if kept.get("boot") == _boot_id() else None
            self.seen = FrameStamp(time, int(kept["pts"]), str(kept["sha256"]), steady_s)
            self.tracks, self.masks = kept["tracks"], str(kept.get("masks", ""))
            self.scenery, self.doors = Scenery.of(kept.get("scenery", [])), kept.get("doors", [])
            self.present = [LastSeen(*each) for each in kept.get("present", [])]
            self.minutes = [{k: int(n) for k, n in dict(each).items()} for each in kept.get("minutes", [])]
            self.sha256 = hashlib.sha256(content).hexdigest()
            self.is_stale = path.exists() and path.stat().st_mtime == 0.0
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read (%s): starting without a memory of this camera", path, error)

    def keep_begun(self) -> None:
        """Keep a copy of the file as it is now, for replays of what is recorded from here on."""
        begun = self._path.parent / BEGUN / self._path.name
        with self._faults.noted("", "what a camera begins with cannot be kept", OSError):
            begun.parent.mkdir(parents=True, exist_ok=True)
            if self.sha256:
                replace_file(begun, self._path.read_bytes(), durable=False, mode=0o640)
            else:
                begun.unlink(missing_ok=True)

    def save(self, seen: FrameStamp, tracks: dict[str, Any] | None) -> None:
        self.seen = seen
        kept = {"time": format_time(seen.time), "pts": seen.pts, "sha256": seen.sha256, "tracks": tracks}
        more = {"masks": self.masks, "scenery": self.scenery.state(), "present": self.present}
        more |= {"minutes": self.minutes, "doors": self.doors}
        kept |= {name: each for name, each in more.items() if each}
        with self._faults.noted("", "a camera's memory cannot be written", OSError):
            kept |= {"steady_s": seen.steady_s, "boot": _boot_id()} if seen.steady_s is not None else {}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                replace_file(self._path, json.dumps({_SCHEMA: kept}).encode(), durable=False, mode=0o640)
            except OSError:
                os.utime(self._path, (0.0, 0.0))  # which needs no space
                raise


def _boot_id() -> str:
    return _BOOT_ID.read_text() if _BOOT_ID.exists() else ""
