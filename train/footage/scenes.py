"""Moments of clips that must not be learnt from: those of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from train.footage.cameras import FootageError

_ROUNDED_S = 0.005


def avoided_times(path: Path) -> dict[str, tuple[float, ...]]:
    """The times of clips from which nothing may be sampled, for example those of a benchmark.

    Args:
        path: JSON Lines; every object anywhere inside that has the keys ``clip`` and ``seconds`` counts,
            unless its ``seconds`` is null (a still).

    Returns:
        File name of a clip to the times in it, seconds, ascending.

    Raises:
        FootageError: the file cannot be read, is not JSON Lines, or names no time of any clip.
    """
    times: dict[str, set[float]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in filter(str.strip, lines):
            for clip, seconds in _named_moments(json.loads(line)):
                times.setdefault(Path(clip).name, set()).add(seconds)
    except (OSError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise FootageError(f"{path} cannot be read as JSON Lines ({error}); give another file") from error
    if not times:
        raise FootageError(f'{path} names no {{"clip": ..., "seconds": ...}}; nothing would be avoided')
    return {clip: tuple(sorted(own)) for clip, own in times.items()}


def is_near(seconds: float, times: Sequence[float], within_s: float) -> bool:
    """True where a moment is within the limit of one of some times, the limit included: times are rounded."""
    return any(abs(seconds - time) <= within_s + _ROUNDED_S for time in times)


def _named_moments(value: object) -> Iterator[tuple[str, float]]:
    """Clips and seconds anywhere in a JSON value."""
    if isinstance(value, Mapping):
        if "clip" in value and value.get("seconds") is not None:
            yield str(value["clip"]), float(value["seconds"])
        for inner in value.values():
            yield from _named_moments(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_moments(inner)
