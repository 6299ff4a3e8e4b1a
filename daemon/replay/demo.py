"""`narrated demo`: a server, a clip, and a subscriber that prints what comes out of the stream."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from time import monotonic

from platformdirs import user_cache_path
from rich.console import Console

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.inputs import find_footage
from daemon.replay.output import check_output
from daemon.replay.progress import ReplayProgress
from daemon.replay.replay import ReplayOptions, ReplayReport, replay
from daemon.service.embedded_redis import EmbeddedServer
from daemon.service.formatting import time_line
from models.captioner import Captioner
from pipeline.loop import Loop
from pipeline.publisher import subscribe

CLIP_NAME = "vtest.avi"
CLIP_SHA256 = "45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf"
CLIP_URL = "https://raw.githubusercontent.com/opencv/opencv/4.x/samples/data/vtest.avi"
DEBIAN_PATH = Path("usr/share/doc/opencv-doc/examples/data/vtest.avi")

_LAST_ARRIVALS_S = 10.0
_POLL_S = 0.05


class DemoClipError(Exception):
    """The demo's clip cannot be had; the message lists what was tried and what to do."""


def run_demo(clip: Path, captioner: Captioner, out: Path) -> ReplayReport:
    """Replay a clip into an embedded server, print what arrives from its stream, write the report.

    Raises:
        OutputError: the folder, whose narrations are replaced, cannot be written.
        EmbeddedServerError: no server can be started.
        PublisherError: the stream cannot be read.
    """
    check_output(out, force=True)
    footage = find_footage([str(clip)])
    camera, arrived = footage[0].camera, 0
    console = Console(stderr=True)
    progress = ReplayProgress(console)
    with EmbeddedServer() as server:

        def listen() -> None:
            nonlocal arrived
            for record in subscribe(server.url, [camera], "0", loop.stopped):
                progress.print(time_line(record))
                arrived += 1

        loop = Loop("listener", listen)
        loop.start()
        console.print(
            f"stream narrated:{{{camera}}}:changes on {server.url}", highlight=False, soft_wrap=True
        )
        options = ReplayOptions(camera_plan("demo", "", CameraDefaults()), redis_url=server.url, out=out)
        try:
            with progress:
                report = replay(footage, captioner, options, lambda *_: None, progress)
            until = monotonic() + _LAST_ARRIVALS_S
            while arrived < report.narrations and loop.alive and monotonic() < until:
                loop.stopped.wait(_POLL_S)
            loop.raise_error()
        finally:
            loop.stop()
            loop.join(_LAST_ARRIVALS_S)
    return report


def demo_clip(folder: Path | None = None) -> Path:
    """OpenCV's vtest.avi (768x576, 10 frames a second, 79.5 s), fetched once and kept.

    Args:
        folder: where it is kept; None takes the user's cache folder.

    Raises:
        DemoClipError: no way led to the file whose sha256 is `CLIP_SHA256`.
    """
    folder = folder or user_cache_path("narrated", appauthor=False)
    clip = folder / CLIP_NAME
    if clip.is_file() and _sha256(clip) == CLIP_SHA256:
        return clip
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for name, fetch in WAYS.items():
        # Written beside and renamed, so that an interrupted download is never taken for the clip.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            candidate = Path(scratch) / CLIP_NAME
            try:
                fetch(candidate)
            except (OSError, subprocess.SubprocessError) as error:
                failures.append(f"  {name}: {error}")
                continue
            if _sha256(candidate) == CLIP_SHA256:
                return candidate.replace(clip)
            failures.append(f"  {name}: the download is not the clip (its sha256 differs)")
    raise DemoClipError(
        "could not get the demo's clip:\n" + "\n".join(failures) + "\n"
        f"Copy any surveillance clip here and run: make demo VIDEO=path (or put {CLIP_NAME} at {clip})"
    )


def _copy_installed(target: Path) -> None:
    shutil.copyfile("/" / DEBIAN_PATH, target)


def _download(target: Path) -> None:
    with urllib.request.urlopen(CLIP_URL, timeout=20) as answer, target.open("wb") as file:
        shutil.copyfileobj(answer, file)


def _extract_from_debian(target: Path) -> None:
    folder = target.parent
    command = ["sh", "-ec", _APT]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=600, check=True)  # noqa: S603 - constant
    shutil.copyfile(folder / DEBIAN_PATH, target)


# With the machine's package lists, else with lists of our own: that needs no root.
_APT = """
apt-get -qq download opencv-doc || {
    mkdir -p lists/partial archives/partial
    set -- -oDir::State::Lists="$PWD/lists" -oDir::Cache="$PWD"
    apt-get -qq "$@" update
    apt-get -qq "$@" download opencv-doc
}
dpkg-deb -x opencv-doc_*.deb .
"""

WAYS = {
    "the installed Debian package opencv-doc": _copy_installed,
    "OpenCV's repository": _download,
    "the Debian package opencv-doc, downloaded with apt-get": _extract_from_debian,
}
"""Where the clip may be had from, nearest first."""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
