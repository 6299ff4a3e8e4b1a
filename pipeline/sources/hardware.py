"""Decoding on a graphics card, where there is one that can."""

from __future__ import annotations

import logging

from av import Codec
from av.codec.hwaccel import HWAccel, HWDeviceType, hwdevices_available
from av.error import FFmpegError

log = logging.getLogger(__name__)

_ASKED_OF = "h264"
"""The codec for which a device is tried: what decodes anything at all decodes it."""


def device_works(name: str) -> bool:
    """Whether a device of this type is there and answers.

    Tried apart from any camera: an error at opening a camera does not tell which of the two is at fault.
    """
    if name not in {device.name for device in HWDeviceType}:
        return False
    try:
        HWAccel(device_type=name).create(Codec(_ASKED_OF, "r"))
    except (FFmpegError, OSError, NotImplementedError, RuntimeError):
        return False
    return True


class Hardware:
    """The device that decodes one camera; where there is none, one warning and the processor.

    Args:
        choice: ``none``, ``auto`` or a device type such as ``cuda``.
        camera: its name, for the warning.
    """

    def __init__(self, choice: str, camera: str) -> None:
        self._camera = camera
        self._warned = False
        self.device: str | None = None
        if choice == "none":
            return
        candidates = hwdevices_available() if choice == "auto" else (choice,)
        self.device = next((name for name in candidates if device_works(name)), None)
        if self.device is None:
            self._fall_back(f"no device of {', '.join(candidates) or 'any kind'} answers")

    def acceleration(self) -> HWAccel | None:
        """What `av.open` takes; a stream that the device cannot decode falls back by itself."""
        return HWAccel(device_type=self.device, allow_software_fallback=True) if self.device else None

    def opened(self, *, accelerated: bool) -> str | None:
        """Take note of whether the device decodes the stream that was opened; the device where it does."""
        if self.device and not accelerated:
            self._fall_back(f"{self.device} cannot decode this stream")
        return self.device if accelerated else None

    def _fall_back(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s: %s: the processor decodes", self._camera, reason)
