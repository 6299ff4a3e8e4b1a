"""One way to open a source, whatever it is."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline.redaction import redact
from pipeline.sources.frame import Source, SourceError, SourceOptions
from pipeline.sources.stills import is_still, open_stills
from pipeline.sources.times import natural_key
from pipeline.sources.video import open_videos

LONGEST_NAME = 64  # characters

_DEFAULTS = SourceOptions()
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def open_source(
    url: str,
    options: SourceOptions = _DEFAULTS,
    camera: str | None = None,
    *,
    screening: str | None = None,
) -> Source:
    """Open video files, a folder of stills, or a camera; iterate it for frames.

    Args:
        url: a video file; a glob whose files are segments of one camera, read in turn; a folder or
            a glob of still images; a single still; ``file://`` for any of these; ``rtsp://``, ``rtsps://``.
        options: sampling, analysis size, start time, time-outs.
        camera: name of the camera; None takes the name of the file, the folder of several files, or the host
            and path of a URL.
        screening: the same camera's small stream, ``rtsp://``; it alone is decoded while nothing moves.

    Returns:
        A source, to be used as a context manager. A camera that is away is no error: iteration waits for it.

    Raises:
        SourceError: nothing there can be read; the message says what to do and holds no credentials.
    """
    scheme = _SCHEME.match(url)
    match scheme.group(1).lower() if scheme else "file":
        case "rtsp" | "rtsps":
            return _open_rtsp(url, options, camera, screening)
        case _ if screening:
            raise SourceError(f"{redact(url)}: screening is for cameras: leave it out")
        case "file":
            return _open_files(unquote(urlsplit(url).path) if scheme else url, options, camera)
        case other:
            raise SourceError(
                f"{redact(url)}: {other}:// is not supported: give a video file, a glob, a folder of stills"
                " or an rtsp:// URL"
            )


def _open_rtsp(url: str, options: SourceOptions, camera: str | None, screening: str | None) -> Source:
    from pipeline.sources.rtsp import RtspSource, open_screened  # noqa: PLC0415 - files need no network code

    for address in filter(None, (url, screening)):
        try:
            host = urlsplit(address).hostname
        except ValueError:
            host = None
        if not host or not _SCHEME.match(address) or not address.lower().startswith("rtsp"):
            raise SourceError(f"{redact(address)}: names no host: write rtsp://user:password@host:554/path")
    # From the redacted URL: names of cameras are shown everywhere.
    address = redact(url).partition("://")[2].partition("?")[0].removeprefix("***@")
    name = camera or slug(address)
    if screening is None:
        return RtspSource(url, options, name)
    return open_screened(url, screening, options, name)


def _open_files(place: str, options: SourceOptions, camera: str | None) -> Source:
    path = Path(place).expanduser()
    if path.is_dir():
        paths = sorted(p for p in path.iterdir() if is_still(p) and p.is_file())
        if not paths:
            raise SourceError(
                f"{path}: holds no still images; for its videos give a glob such as {path}/*.mp4"
            )
    else:
        paths = match_files(path)
    name = paths[0].resolve().parent.name if len(paths) > 1 or path.is_dir() else paths[0].stem
    return open_files(paths, options, camera or slug(name))


def match_files(path: Path) -> list[Path]:
    """The files that a pattern matches, in the natural order of their names; a path without one as it is.

    Raises:
        SourceError: the pattern matches no file.
    """
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matches = map(Path, glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns too
    files = sorted((p for p in matches if p.is_file()), key=lambda p: (p.parent, natural_key(p)))
    if not files:
        raise SourceError(f"{path}: matches no file: check the pattern, and quote it for the shell")
    return files


def open_files(paths: Sequence[Path], options: SourceOptions, camera: str) -> Source:
    """Video files, or stills, of one camera.

    Raises:
        SourceError: none can be read, or there are both.
    """
    stills = sum(map(is_still, paths))
    if stills == len(paths):
        return open_stills(paths, options, camera)
    if stills:
        raise SourceError(f"{paths[0].parent}: both still images and videos: give a pattern for one of them")
    return open_videos(paths, options, camera)


def slug(text: str) -> str:
    """The text as a camera's name; see `pipeline.record.check_camera`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.-")[:LONGEST_NAME] or "camera"
