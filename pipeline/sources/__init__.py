"""Frames from video files, folders of stills and RTSP cameras, and one way to open them."""

import glob
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.loop import Heartbeats
from pipeline.redaction import redact
from pipeline.sources.decode import Screen
from pipeline.sources.frame import (
    Clock,
    ConnectionState,
    Frame,
    Image,
    Polygon,
    Source,
    SourceError,
    SourceOptions,
    SourceReport,
    polygon_mask,
    seconds_between,
)
from pipeline.sources.stills import is_still, open_stills, read_still
from pipeline.sources.times import natural_key
from pipeline.sources.video import open_videos

__all__ = [
    "LONGEST_NAME", "Clock", "ConnectionState", "Frame", "Image", "Polygon", "Source", "SourceError",
    "SourceOptions", "SourceReport", "find_files", "is_video", "open_files", "open_source", "polygon_mask",
    "read_still", "redact", "seconds_between", "slug",
]  # fmt: skip

LONGEST_NAME = 64  # characters

_DEFAULTS = SourceOptions()
_VIDEO = re.compile(
    r"\.(avi|mp4|m4v|mkv|mov|webm|mpe?g|(m2?)?ts|flv|wmv|asf|ogv|3gp|h?26[45]|hevc|dav)", re.IGNORECASE
)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def open_source(
    url: str,
    options: SourceOptions = _DEFAULTS,
    camera: str | None = None,
    *,
    screening: str | None = None,
    heartbeats: Heartbeats | None = None,
) -> Source:
    """Open video files, a folder of stills, or a camera: a context manager, to be iterated for frames.

    A camera that is away is no error: iteration waits for it. The videos of a folder or a glob are one
    camera's, which is called after them if it has no name. `screening` is its small stream, which alone is
    decoded while nothing moves. SourceError where nothing can be read.
    """
    scheme = _SCHEME.match(url)
    if scheme and scheme[1].lower() in {"rtsp", "rtsps"}:
        return _open_rtsp(url, options, camera, screening, heartbeats)
    if screening:
        raise SourceError(f"{redact(url)}: screening is for cameras: leave it out")
    if scheme:
        advice = "give a video file, a glob, a folder of stills or an rtsp:// URL"
        raise SourceError(f"{redact(url)}: {scheme[1]}:// is not supported: {advice}")
    path = Path(url).expanduser()
    mistaken = redact(url) != url or url.lower().startswith(("rtsp:", "rtsps:"))
    if mistaken and not (path.exists() or glob.has_magic(url)):
        raise SourceError(f"{redact(url)}: is no file; of a camera write rtsp://user:password@host:554/path")
    paths = find_files(path)
    folder = path if path.is_dir() else paths[0].parent
    name = folder.resolve().name if len(paths) > 1 or path.is_dir() else paths[0].stem
    return open_files(paths, options, camera or slug(name))


def _open_rtsp(
    url: str, options: SourceOptions, camera: str | None, screening: str | None, heartbeats: Heartbeats | None
) -> Source:
    from pipeline.sources.rtsp import SCREENED_HZ, RtspSource  # noqa: PLC0415 - files need no network code

    for address in filter(None, (url, screening)):
        try:
            # A password may hold a slash, behind which the port would be looked for in vain.
            host = urlsplit(address).hostname if urlsplit(redact(address)).port != 0 else None
        except ValueError:
            host = None
        if not host or not address.startswith(("rtsp://", "rtsps://")):  # libav knows no capitals
            advice = "write rtsp://user:password@host:554/path"
            raise SourceError(f"{redact(address)}: no host, not in lower case, or a bad port: {advice}")
    # From the redacted URL: names of cameras are shown everywhere.
    address = redact(url).partition("://")[2].partition("?")[0].removeprefix("***@")
    name = camera or slug(address)
    screen = None
    if screening:  # areas and time-outs are the same for both
        small = replace(options, sample_hz=SCREENED_HZ, idle_keyframes=False)
        screen = Screen(RtspSource(screening, small, f"{name}: sub-stream", heartbeats=heartbeats))
    return RtspSource(url, options, name, screen=screen, heartbeats=heartbeats)


def is_video(path: Path) -> bool:
    return _VIDEO.fullmatch(path.suffix) is not None


def find_files(place: Path) -> list[Path]:
    """The videos in and below a folder, or else its stills; the files that a pattern matches; a file itself.

    They are in the natural order of their names. A path that does not exist is left to its opening.
    """
    if place.is_dir():
        inside = [path for path in place.rglob("*") if path.is_file()]
        stills = [path for path in inside if is_still(path) and path.parent == place]
        found = [path for path in inside if is_video(path)] or stills
    elif place.exists() or not glob.has_magic(str(place)):
        return [place]
    else:
        matches = map(Path, glob.glob(str(place), recursive=True))  # noqa: PTH207 - absolute patterns too
        found = [path for path in matches if path.is_file()]
    if not found:
        advice = "check the path; quote a pattern for the shell"
        raise SourceError(f"{redact(place)}: no video and no still image is there: {advice}")
    return sorted(found, key=lambda path: (path.parent, natural_key(path)))


def open_files(paths: Sequence[Path], options: SourceOptions, camera: str) -> Source:
    """Video files, or stills, of one camera; SourceError where none can be read, or there are both."""
    stills = sum(map(is_still, paths))
    if stills == len(paths):
        return open_stills(paths, options, camera)
    if stills:
        raise SourceError(f"{paths[0].parent}: both still images and videos: give a pattern for one of them")
    return open_videos(paths, options, camera)


def slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.-")[:LONGEST_NAME] or "camera"
