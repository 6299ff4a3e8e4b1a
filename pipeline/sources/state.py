"""The state of the connection to a live source."""

from __future__ import annotations

from time import monotonic

from pipeline.sources.frame import ConnectionState

QUIET_SHARE = 0.5
"""A camera that has been silent for this share of its stall time-out is shown as stalled."""


class Connection:
    """State of one camera: written by the thread that reads it, read by any.

    connecting -> streaming at the first intact picture; streaming -> stalled where packets or intact pictures
    stay away, and back when they come; any -> backing off when the connection is given up; then connecting.
    The reading thread may be blocked, so a stall is worked out when the state is read.
    """

    def __init__(self, stall_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self._enter(ConnectionState.CONNECTING)

    def connecting(self) -> None:
        """An attempt to open the camera begins."""
        self._enter(ConnectionState.CONNECTING)

    def backing_off(self) -> None:
        """The connection is lost, or did not come about; there is a pause before the next attempt."""
        self._enter(ConnectionState.BACKING_OFF)

    def packet(self) -> None:
        """A packet came from the camera."""
        self._packet_s = monotonic()

    def picture(self) -> None:
        """An intact picture came, or would have, had its packet been decoded."""
        self._picture_s = self._packet_s
        if self._state is not ConnectionState.STREAMING:
            self._enter(ConnectionState.STREAMING)

    @property
    def streamed_s(self) -> float:
        """Seconds since the first picture of this connection; 0 where there was none."""
        return monotonic() - self._entered_s if self._state is ConnectionState.STREAMING else 0.0

    @property
    def silent_s(self) -> float:
        """Seconds since the last packet."""
        return monotonic() - self._packet_s

    @property
    def pictureless_s(self) -> float:
        """Seconds for which packets have come without an intact picture."""
        return self._packet_s - self._picture_s

    @property
    def state(self) -> ConnectionState:
        """The state now."""
        state, packet_s, picture_s = self._state, self._packet_s, self._picture_s
        is_silent = monotonic() - packet_s > QUIET_SHARE * self._stall_timeout_s
        if state is ConnectionState.STREAMING and (is_silent or packet_s - picture_s > self._stall_timeout_s):
            return ConnectionState.STALLED
        return state

    def _enter(self, state: ConnectionState) -> None:
        # The state comes last: a reader in between gets the new times with the old state, never a stall.
        self._entered_s = self._packet_s = self._picture_s = monotonic()
        self._state = state
