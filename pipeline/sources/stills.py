"""Still images: a folder of them as one camera, or a single one."""

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from pipeline.sources.frame import (
    Clock,
    Frame,
    Image,
    RecordedSource,
    SourceError,
    SourceOptions,
    SourceReport,
    View,
)
from pipeline.sources.times import EPOCH, Sampler, natural_key, stamp_in_name

STILL_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})

_DEFAULTS = SourceOptions()
_MICROSECOND = Fraction(1, 1_000_000)


def is_still(path: Path) -> bool:
    """True for the name of an image file (hidden files are none: copies from a Mac bring ``._a.jpg``)."""
    return path.suffix.lower() in STILL_SUFFIXES and not path.name.startswith(".")


def open_stills(paths: Sequence[Path], options: SourceOptions, camera: str) -> RecordedSource:
    """Still images as a source, sampled like a video, with times as `order_stills` has them.

    One that cannot be read is counted and skipped; SourceError where it is the only one.
    """
    stills = order_stills(paths, options.start)
    first = stills[0][0]
    if len(stills) == 1:
        decode_still(stills[0][1])

    def read(report: SourceReport, closed: threading.Event) -> Iterator[Frame]:
        sampler, view = Sampler(options.sample_hz), View(options)
        for index, (time, path) in enumerate(stills):
            if closed.is_set():
                return
            if not sampler.takes((time - first) // timedelta(microseconds=1), _MICROSECOND):
                continue
            try:
                viewed = view.of_bgr(decode_still(path))
            except SourceError as error:
                report.corrupt += 1
                report.add_error(error)
                sampler.release()  # the next still of the slot stands in
                continue
            report.decoded += 1
            report.sampled += 1
            yield Frame(camera, time, Clock.FILE, index, *viewed)

    return RecordedSource(camera, read, (stills[-1][0] - first).total_seconds())


def order_stills(paths: Sequence[Path], start: datetime | None) -> list[tuple[datetime, Path]]:
    """Stills with their times, in order: by the stamps in their names, else by name, one second apart.

    `start` is the time of the first still; the others keep their distance from it.
    """
    by_name = sorted(paths, key=natural_key)
    stamps = [stamp_in_name(path) for path in by_name]
    known = [stamp for stamp in stamps if stamp is not None]
    # One stamp on all of them names the recording, not the moment.
    if len(known) < len(by_name) or (len(set(known)) == 1 < len(known)):
        first = start or EPOCH
        return [(first + timedelta(seconds=index), path) for index, path in enumerate(by_name)]
    in_time = sorted(zip(known, by_name, strict=True), key=lambda pair: pair[0])
    shift = start - in_time[0][0] if start else timedelta(0)
    return [(stamp + shift, path) for stamp, path in in_time]


def read_still(path: str | Path, options: SourceOptions = _DEFAULTS, camera: str | None = None) -> Frame:
    """One still image as a frame; its time is the option `start`, else the stamp in its name, else 1970."""
    path = Path(path)
    time = options.start or stamp_in_name(path) or EPOCH
    return Frame(camera or path.stem, time, Clock.FILE, 0, *View(options).of_bgr(decode_still(path)))


def decode_still(path: Path) -> Image:
    """Still as BGR uint8 ``(height, width, 3)``, turned as its EXIF orientation says."""
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: cannot be read ({reason}): check the path and its rights") from None
    if not raw:
        raise SourceError(f"{path}: the file is empty (0 bytes): record or copy it again")
    if _cut_off(raw):
        raise SourceError(f"{path}: the image is cut off: record or copy it again")
    try:
        bgr = cv2.imdecode(np.frombuffer(raw, dtype=np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:
        bgr = None
    if bgr is None:
        raise SourceError(f"{path}: is damaged or not an image: give a jpg, png, webp, bmp or tif")
    return np.asarray(bgr, dtype=np.uint8)


def _cut_off(raw: bytes) -> bool:
    """True where a JPEG or PNG lacks its end; OpenCV fills the rest with grey and says nothing."""
    if raw.startswith(b"\xff\xd8"):
        return raw.rfind(b"\xff\xd9") < raw.rfind(b"\xff\xda")
    return raw.startswith(b"\x89PNG") and b"IEND" not in raw[-1024:]
