"""Where the captioner runs."""

from __future__ import annotations

import os

import torch


class DeviceError(Exception):
    """The device that was asked for is not there; the message says what to write instead."""


def chosen_device(name: str) -> torch.device:
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
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"{name!r} is not a device: write auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"this machine has no {name} (or torch was installed without CUDA): write auto or cpu"
        )
    return device
