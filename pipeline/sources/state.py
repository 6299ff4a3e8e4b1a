"""The connection to a live source: its state, and when that began."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple

from pipeline.sources.frame import ConnectionState

QUIET_SHARE = 0.5
"""A camera that has been silent for this share of its stall time-out is shown as stalled."""


class _Moment(NamedTuple):
    steady_s: float
    time: datetime

    @classmethod
    def now(cls) -> _Moment:
        return cls(monotonic(), datetime.now(UTC))


class Connection:
    """State of one camera: written by the thread that reads it, asked for by any.

    connecting -> streaming at the first sound picture; streaming -> stalled where packets or sound pictures
    stay away, and back when they come; any -> backing off when the connection is given up; then connecting.
    Nobody can look while a read blocks, so that a stall is worked out when somebody asks.
    """

    def __init__(self, stall_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self._state, self._entered = ConnectionState.CONNECTING, _Moment.now()
        self._packet = self._picture = self._entered

    def connecting(self) -> None:
        """An attempt to open the camera begins."""
        self._enter(ConnectionState.CONNECTING)

    def backing_off(self) -> None:
        """The connection is lost, or did not come about; there is a pause before the next attempt."""
        self._enter(ConnectionState.BACKING_OFF)

    def packet(self) -> None:
        """Something came from the camera."""
        self._packet = _Moment.now()

    def picture(self) -> None:
        """A sound picture came, or would have, had anybody asked for it."""
        self._picture = self._packet
        if self._state is not ConnectionState.STREAMING:
            self._enter(ConnectionState.STREAMING)

    @property
    def streamed_s(self) -> float:
        """Seconds since the first picture of this connection; 0 where there was none."""
        return monotonic() - self._entered.steady_s if self._state is ConnectionState.STREAMING else 0.0

    @property
    def silent_s(self) -> float:
        """Seconds since something came."""
        return monotonic() - self._packet.steady_s

    @property
    def pictureless_s(self) -> float:
        """Seconds for which packets have come without a sound picture."""
        return self._packet.steady_s - max(self._picture.steady_s, self._entered.steady_s)

    @property
    def now(self) -> tuple[ConnectionState, datetime]:
        """The state, and the aware UTC time at which it began."""
        state, entered, packet, picture = self._state, self._entered, self._packet, self._picture
        if state is ConnectionState.STREAMING:
            if monotonic() - packet.steady_s > QUIET_SHARE * self._stall_timeout_s:
                return ConnectionState.STALLED, packet.time
            if packet.steady_s - picture.steady_s > self._stall_timeout_s:
                return ConnectionState.STALLED, picture.time
        return state, entered.time

    def _enter(self, state: ConnectionState) -> None:
        # In this order: who asks in between sees the new moment with the old state, never a stall.
        self._entered = self._packet = _Moment.now()
        if state is ConnectionState.STREAMING:
            self._picture = self._entered
        self._state = state
