"""Parting each camera's footage in time: learn from what came first, be judged by what came last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import av
import av.error

from train.scenes import Clip, FootageError

GAP_S = 2.0
"""Between the two parts of one clip: frames that are nearer than this show much the same."""
_SEVERAL = 4
"""Of so many clips of a camera whole ones are held out; of fewer each clip is parted."""


def last_held_out(clips: Sequence[Clip], share: float) -> list[Clip]:
    """Mark the last footage of every camera as held out.

    Args:
        clips: of any cameras; those of one camera are in the order of time if their names are sorted.
        share: about this share 0..1 of each camera's footage is held out: whole clips where it has four or
            more, else the end of every clip, `GAP_S` after what is learnt from.

    Returns:
        All clips, some of them twice: once for each of their parts.

    Raises:
        FootageError: a clip that must be parted cannot be read.
    """
    cameras: dict[str, list[Clip]] = {}
    for clip in clips:
        cameras.setdefault(clip.camera, []).append(clip)
    divided: list[Clip] = []
    for own in cameras.values():
        if len(own) >= _SEVERAL:
            first = len(own) - max(1, round(share * len(own)))
            divided += [replace(clip, held_out=n >= first) for n, clip in enumerate(own)]
        else:
            divided += [part for clip in own for part in _parts(clip, share)]
    return divided


def _parts(clip: Clip, share: float) -> tuple[Clip, Clip]:
    start, end = _span(clip)
    at = end - share * (end - start)
    return replace(clip, end_s=at - GAP_S), replace(clip, start_s=at, held_out=True)


def _span(clip: Clip) -> tuple[float, float]:
    """Times of the first and last picture, seconds; by the packets, since not every container knows them."""
    least, most = math.inf, -math.inf
    try:
        with av.open(str(clip.path)) as container:
            stream = container.streams.video[0]
            for packet in container.demux(stream):
                if packet.pts is not None and packet.time_base is not None:
                    seconds = float(packet.pts * packet.time_base)
                    least, most = min(least, seconds), max(most, seconds)
    except (av.error.FFmpegError, OSError, IndexError) as error:
        raise FootageError(f"{clip.path} cannot be read ({error}); remove it or exclude it") from error
    if least > most:
        raise FootageError(f"{clip.path} has no times; convert it to MP4, or give four or more clips")
    return least, most
