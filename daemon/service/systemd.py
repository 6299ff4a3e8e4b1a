"""Readiness, status and watchdog for systemd (sd_notify)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from time import monotonic, monotonic_ns

_STATUS_EVERY_S = 10.0


class ServiceWatch:
    """Speaks the protocol of sd_notify; silent where no service manager listens."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        watchdog_us = os.environ.get("WATCHDOG_USEC", "")
        self._every_s = int(watchdog_us) / 3e6 if watchdog_us.isdigit() else None
        self._fed_at = self._status_at = float("-inf")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    def ready(self, status: str) -> None:
        """All is started."""
        self._notify(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """The configuration is read again; `ready` says when that is done."""
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The end has begun."""
        self._notify("STOPPING=1\nSTATUS=publishing the rest")

    def progress(self, status: str, *, healthy: bool) -> None:
        """Called at every turn of the main loop; the watchdog is fed only while everything moves."""
        now = monotonic()
        if healthy and self._every_s is not None and now - self._fed_at >= self._every_s:
            self._notify("WATCHDOG=1")
            self._fed_at = now
        if now - self._status_at >= _STATUS_EVERY_S:
            self._notify(f"STATUS={status}")
            self._status_at = now

    def _notify(self, message: str) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the manager is restarting: the next message will reach it
                self._socket.sendto(message.encode(), self._address)
