"""Device of the captioner."""

from __future__ import annotations

import os
import re

import torch


class DeviceError(Exception):
    """The device is not there; the message says what to write instead."""


def choose_device(name: str) -> torch.device:
    """The torch device of ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; ``auto`` takes a GPU where there is one.

    From then on torch computes in half as many threads as there are processors, unless `OMP_NUM_THREADS` says
    otherwise: the others decode, and of two hyperthreads the second adds less than it costs.

    Raises:
        DeviceError: there is no such device.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise DeviceError(f"{name!r} is not a device: write auto, cpu, cuda or cuda:1")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= (there := torch.cuda.device_count()):
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        has = f"has CUDA {torch.version.cuda}" if torch.version.cuda else "has no CUDA"
        raise DeviceError(
            f"there is no {name}: of GPUs torch sees {there} (it {has}; CUDA_VISIBLE_DEVICES: {shown}); "
            "write auto or cpu, or mend that"
        )
    return device
