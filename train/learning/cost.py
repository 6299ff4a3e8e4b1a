"""What a run costs: peak memory, and how many samples a second it learns from."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path

import torch

from train.learning.run_options import OnBatch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MIB = 2**20


class Meter:
    """Measures from the moment it is made."""

    def __init__(self, device: str) -> None:
        """Forget what ran before.

        Args:
            device: torch device; on a GPU its memory is measured, else this process's.
        """
        self._gpu = device.startswith("cuda")
        self._device = device
        self._seconds, self._batches = 0.0, 0
        self._last: tuple[int, int, float] | None = None
        if self._gpu:
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # where it is forbidden, the peak is that of the whole process
                _CLEAR.write_text("5")

    def watching(self, further: OnBatch) -> OnBatch:
        """To be told of every batch; it tells `further` as well."""

        def timed(epoch: int, done: int, whole: int, loss: float) -> None:
            now = time.perf_counter()
            if self._last is not None and self._last[:2] == (epoch, done - 1):
                self._seconds += now - self._last[2]
                self._batches += 1
            self._last = (epoch, done, now)
            further(epoch, done, whole, loss)

        return timed

    def samples_per_s(self, batch: int) -> float | None:
        """Annotations that were learnt from in a second, validation not counted; None of no training."""
        return round(self._batches * batch / self._seconds, 1) if self._seconds else None

    def peak_mib(self) -> float:
        """The most memory that was in use, MiB."""
        if self._gpu:
            return round(torch.cuda.max_memory_allocated(self._device) / _MIB, 1)
        with suppress(OSError, StopIteration, ValueError):
            lines = _STATUS.read_text(encoding="ascii").splitlines()
            line = next(each for each in lines if each.startswith("VmHWM:"))
            return round(int(line.split()[1]) / 1024, 1)
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
