"""Device of the captioner."""

import sys
from pathlib import Path

from models import load_captioner
from models.captioner import Captioner
from models.grounded.inference import default_threads

_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Of NVIDIA, on Linux and on WSL: where there is none no GPU is looked for, for looking loads torch."""


class DeviceError(Exception):
    """The device is not there; the message says what to write instead."""


def choose_device(name: str) -> str:
    """The device of `CaptionerSettings.device`; raises `DeviceError`."""
    if name == "cpu" or (name == "auto" and not any(driver.exists() for driver in _DRIVERS)):
        return "cpu"
    try:
        import torch  # noqa: PLC0415 - of the extra gpu
    except ModuleNotFoundError:
        if name == "auto":
            return "cpu"
        raise DeviceError(f"{name} needs torch: pip install 'narrated[gpu]', or write auto or cpu") from None
    there = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if there else "cpu"
    if int(name.partition(":")[2] or 0) >= there:
        raise DeviceError(f"there is no {name}: torch sees {there} GPUs here: write auto or cpu")
    return name


def load_on(device: str, checkpoint: Path) -> Captioner:
    """Load a captioner; raises `DeviceError` or `CheckpointError`."""
    captioner = load_captioner(checkpoint, choose_device(device))
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(default_threads())
    return captioner
