"""Lost H.264 frames, found by their numbers.

Where a network loses whole frames libav makes up the missing reference, and nothing flags what is predicted
from it: of 9 frames after a lost one 9 were wrong, 0 flagged. (With part of a frame lost, and in H.265, it
tells.) ITU-T H.264, 7.3.2.1 (sequence parameter set), 7.3.3 (slice header), 7.4.3 (`frame_num`: a picture has
the number of the reference picture before it, or the next one).
"""

from __future__ import annotations

from collections.abc import Iterator

from av.packet import Packet
from av.video.stream import VideoStream

_SLICE, _IDR, _SPS = 1, 5, 7
_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})
_START = b"\0\0\1"
_HEADER_BYTES = 64  # of a slice or a sequence parameter set: what is read lies in there
_CHROMA_444 = 3
_AVCC_VERSION = 1


class FrameNumbers:
    """Follows the frame numbers of one stream; other codecs than H.264 have none that are looked at."""

    def __init__(self) -> None:
        self._started = False
        self._length_bytes = 0  # in front of each unit in MP4; 0: start codes
        self._bits: int | None = None  # of a frame number; None while no parameter set was seen
        self._planes = False
        self._reference: int | None = None

    def gap(self, packet: Packet[VideoStream]) -> bool:
        """Whether a frame that this packet may lean on was lost before it."""
        context = packet.stream.codec_context
        if context.name != "h264" or not packet.size:
            return False
        if not self._started:
            self._start(bytes(context.extradata or b""))
        for unit in _units(bytes(packet), self._length_bytes):
            kind = unit[0] & 31
            if kind == _SPS:
                self._read_parameters(unit)
            elif kind in {_SLICE, _IDR}:
                return self._follow(unit, kind)
        return False

    def restart(self) -> None:
        """Frames are left out on purpose: the next one may have any number."""
        self._reference = None

    def _start(self, extradata: bytes) -> None:
        self._started = True
        if extradata[:1] == bytes([_AVCC_VERSION]) and len(extradata) > 8:  # noqa: PLR2004 - its fixed part
            self._length_bytes = (extradata[4] & 3) + 1
            units = iter([extradata[8:]])
        else:
            units = _units(extradata, 0)
        for unit in units:
            if unit[0] & 31 == _SPS:
                self._read_parameters(unit)

    def _read_parameters(self, unit: bytes) -> None:
        try:
            self._bits, self._planes = _frame_number_bits(_Bits(unit[1:]))
        except IndexError:
            self._bits = None

    def _follow(self, unit: bytes, kind: int) -> bool:
        if self._bits is None:
            return False
        bits = _Bits(unit[1:])
        try:
            for _ in range(3):  # first_mb_in_slice, slice_type, pic_parameter_set_id
                bits.exp_golomb()
            if self._planes:
                bits.take(2)
            number = bits.take(self._bits)
        except IndexError:
            return False
        before = self._reference
        if unit[0] >> 5 & 3:  # nal_ref_idc: others are predicted from it
            self._reference = number
        following = (before, None if before is None else (before + 1) % (1 << self._bits))
        return kind == _SLICE and before is not None and number not in following


class _Bits:
    """Reads bits from a unit whose emulation prevention bytes are taken out; IndexError at its end."""

    def __init__(self, unit: bytes) -> None:
        plain = unit[:_HEADER_BYTES].replace(b"\0\0\3", b"\0\0")
        self._value, self._left = int.from_bytes(plain, "big"), 8 * len(plain)

    def take(self, count: int) -> int:
        """The next bits as a number."""
        if count > self._left:
            raise IndexError(count)
        self._left -= count
        return self._value >> self._left & ((1 << count) - 1)

    def exp_golomb(self) -> int:
        """The next unsigned number in Exp-Golomb code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros)


def _frame_number_bits(bits: _Bits) -> tuple[int | None, bool]:
    """Width of a frame number (None: gaps are allowed, or it cannot be read), and separate colour planes."""
    profile = bits.take(8)
    bits.take(16)  # constraints and level
    bits.exp_golomb()
    planes = False
    if profile in _HIGH_PROFILES:
        if bits.exp_golomb() == _CHROMA_444:
            planes = bool(bits.take(1))
        bits.exp_golomb()
        bits.exp_golomb()
        bits.take(1)
        if bits.take(1):  # scaling lists: no camera has been seen to send them
            return None, False
    width = bits.exp_golomb() + 4
    order = bits.exp_golomb()
    if order == 0:
        bits.exp_golomb()
    elif order == 1:
        bits.take(1)
        bits.exp_golomb()
        bits.exp_golomb()
        for _ in range(bits.exp_golomb()):
            bits.exp_golomb()
    bits.exp_golomb()  # number of reference frames
    gaps_allowed = bits.take(1)
    return (None if gaps_allowed else width), planes


def _units(packet: bytes, length_bytes: int) -> Iterator[bytes]:
    """Starts of the network abstraction layer units of a packet, none of them empty."""
    if length_bytes:
        at = 0
        while at + length_bytes < len(packet):
            length = int.from_bytes(packet[at : at + length_bytes], "big")
            at += length_bytes
            if length:
                yield packet[at : at + min(length, _HEADER_BYTES)]
            at += length
        return
    at = packet.find(_START)
    while 0 <= at < len(packet) - len(_START):
        at += len(_START)
        yield packet[at : at + _HEADER_BYTES]
        at = packet.find(_START, at)
