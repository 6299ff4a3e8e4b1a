"""One run in several processes, as `torchrun` starts them: every process takes its share of each batch.

Gradients are weighted by the share of the batch's annotations that a process has, and summed, so that a loss
that is a mean over annotations (DDLA's, CAPT's, Spot It's but for its batch norm) is lowered as by one
process, up to rounding. Losses that balance or contrast the pairs of a batch (DUDA's of changed and
distractor pairs, IDC-PCL's mean over words, the joint training's candidates) do so within each share. Every
process draws its own dropout. The first process measures and writes; the others wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

# Its functions take the group of the moment for a default argument. Imported after the group is made, as Adam
# does it, they keep the group and its threads until the interpreter ends, where such a thread may abort it.
import torch.distributed.nn
from torch import Tensor, distributed, nn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes of a run.

    Attributes:
        rank: of this one, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that measures and writes."""
        return self.rank == 0

    def share(self, batch: Sequence[T]) -> Sequence[T]:
        """What of a batch this process takes; of a batch with fewer than one each all take all of it."""
        return batch if len(batch) < self.size else batch[self.rank :: self.size]

    def weight(self, batch: int) -> float:
        """The weight of this process's share of a batch of this many; those of all sum up to 1."""
        return 1 / self.size if batch < self.size else len(range(self.rank, batch, self.size)) / batch

    def summed(self, value: float) -> float:
        """The sum of a number over all processes."""
        if self.size == 1:
            return value
        total = torch.tensor([value], dtype=torch.float64, device=_place())
        distributed.all_reduce(total)
        return float(total)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Every gradient becomes the sum over all processes; None where no process has any."""
        if self.size == 1 or not parameters:
            return
        has = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([has, *(each.float().reshape(-1) for each in own)])
        distributed.all_reduce(flat)
        start = len(parameters)
        for number, parameter in enumerate(parameters):
            part = flat[start : start + parameter.numel()]
            start += parameter.numel()
            summed = part.view_as(parameter).to(parameter.dtype)
            parameter.grad = summed if float(flat[number]) else None

    def from_first(self, made: Callable[[], T]) -> T:
        """What the first process makes, in all of them."""
        if self.size == 1:
            return made()
        box: list[T | None] = [made() if self.first else None]
        distributed.broadcast_object_list(box, src=0)
        value: T | None = box[0]
        return value  # type: ignore[return-value]

    def alike(self, tensors: Sequence[Tensor]) -> None:
        """Give all processes the first one's values."""
        if self.size > 1:
            for each in tensors:
                distributed.broadcast(each.detach(), src=0)

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """The first process does it before the others, who then find on disk what it wrote."""
        if self.size > 1 and not self.first:
            distributed.barrier()
        yield
        if self.size > 1 and self.first:
            distributed.barrier()


ALONE = ProcessGroup()


def started() -> ProcessGroup:
    """The group that the environment tells of, without talking to anybody: `torchrun` sets it."""
    return ProcessGroup(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def own_device(device: str) -> str:
    """The device of this process: of several GPUs each process takes one."""
    local = os.environ.get("LOCAL_RANK")
    return f"cuda:{local}" if device == "cuda" and local is not None and started().size > 1 else device


@contextmanager
def process_group(device: str) -> Iterator[ProcessGroup]:
    """Join the processes that `torchrun` started; alone without it.

    Args:
        device: of this process; GPUs talk by NCCL, CPUs by gloo.
    """
    group = started()
    if group.size == 1 or distributed.is_initialized():
        yield group
        return
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield group
    finally:
        distributed.destroy_process_group()


def _place() -> torch.device:
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
