"""Keyframes only while nothing moves: most of what a camera costs is decoding that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipeline.distance import l2_luma
from pipeline.sources.decode import SoundFrames
from pipeline.sources.frame import Luma

STILL_S = 10.0
"""After so long without motion only keyframes are decoded: longer than any pair waits to settle."""

FIRST_S = 90.0
"""Everything is decoded for so long at first: thresholds are calibrated on it."""

KEYFRAME_GAP_S = 12.0
"""Keyframes further apart than this are not enough to watch by."""

WAKING_L2 = 12.0
"""L2 distance of a block, in grey levels, that is motion: below the least lower threshold."""

_BLOCK = 16


class Arrived(NamedTuple):
    """A packet, and the aware UTC time at which it came."""

    packet: Packet[VideoStream]
    received: datetime


def moves(seen: Luma | None, plane: Luma) -> bool:
    """Whether anything moved between two luma planes; True where there is nothing to compare."""
    if seen is None or seen.shape != plane.shape:
        return True
    return bool(l2_luma(seen, plane, _BLOCK)[1].max() > WAKING_L2)


class IdleGate:
    """Decodes every packet while something moves, keyframes alone while nothing does.

    Decoding goes on at a keyframe and never within a group of pictures: frames whose references were not
    decoded look wrong, and none of them is flagged. While idle each keyframe is drained from the decoder,
    which otherwise keeps it back until later frames come, and decoded again when it turns out to show
    motion, so that what follows has its references.
    """

    def __init__(self, still_s: float = STILL_S, first_s: float = FIRST_S) -> None:
        self._still_s = still_s
        self._moved_s = monotonic() + max(0.0, first_s - still_s)
        self._seen: Luma | None = None
        self._keyframe_s: float | None = None
        self._gap_s: float | None = None
        self._given: int | None = None
        self._alone: Packet[VideoStream] | None = None
        self._waking = self._apart = False
        self.idle = False

    def connected(self) -> None:
        """A new connection: decode everything until nothing has moved for a while."""
        self.idle = self._waking = self._apart = False
        self._seen = self._keyframe_s = self._gap_s = self._given = self._alone = None
        self._moved_s = max(self._moved_s, monotonic())

    def due(self, packet: Packet[VideoStream], received: datetime) -> list[Arrived]:
        """What is to be decoded now that a packet has come, in its order."""
        if packet.is_keyframe:
            self._note_keyframe()
        elif self.idle:
            self._apart = True
            return []
        return [Arrived(packet, received)]

    def decode(self, packet: Packet[VideoStream], sound: SoundFrames) -> Iterator[VideoFrame]:
        """Sound frames of a packet that is due, none of them given out before."""
        if self._apart:
            # What the decoder held back is old by now, and what precedes a keyframe in time leans on it.
            sound.afresh(packet.stream.codec_context)
            self._apart = False
            if packet.pts is not None:
                self._given = packet.pts if packet is self._alone else packet.pts - 1
        elif packet.is_keyframe:
            self._given = None
        if not (self.idle and packet.is_keyframe):
            for frame in sound.decode(packet):
                if self._given is None or frame.pts is None or frame.pts > self._given:
                    yield frame
            return
        self._alone = packet
        yield from sound.decode(packet)
        yield from sound.drained(packet.stream.codec_context)
        self._apart = True
        if self._waking:  # it was given out already; what follows leans on it
            self.idle = self._waking = False
            yield from self.decode(packet, sound)

    def look(self, plane: Luma) -> None:
        """Take the luma plane of a frame that was handed out, and decide how much is decoded from here on."""
        seen, self._seen = self._seen, plane
        now_s = monotonic()
        if moves(seen, plane):
            self._moved_s = max(self._moved_s, now_s)
            self._waking = self.idle
        elif not self.idle and now_s - self._moved_s >= self._still_s and self._may_rest(now_s):
            self.idle = True

    def _note_keyframe(self) -> None:
        now_s = monotonic()
        if self._keyframe_s is not None:
            self._gap_s = now_s - self._keyframe_s
        self._keyframe_s = now_s

    def _may_rest(self, now_s: float) -> bool:
        """Whether keyframes come, and close enough: streams with intra refresh have none."""
        if self._gap_s is None or self._keyframe_s is None:
            return False
        return max(self._gap_s, now_s - self._keyframe_s) <= KEYFRAME_GAP_S
