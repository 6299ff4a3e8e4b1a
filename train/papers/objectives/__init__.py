"""Training losses other than the captioner's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from models.papers.captioner import PairBatch, WordCaptioner

if TYPE_CHECKING:
    from train.papers.batches import Split


@dataclass(frozen=True, slots=True)
class Step:
    epoch: int  # from 1
    number: int  # of the batch in its epoch, from 1
    batches: int  # in an epoch

    @property
    def done(self) -> int:
        return (self.epoch - 1) * self.batches + self.number - 1


class Objective(nn.Module):
    """A loss around a captioner, with what it learns beside the captioner.

    Its own parameters are trained with the captioner's, and its state is kept with the state of the run. What
    it draws at random must come from torch's generator, which seed and epoch decide.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Plain values with their defaults, besides captioner and training split."""

    name: str = "own"  # key in `OBJECTIVES`
    metric: str = "val_cider"  # what chooses between epochs, see `score`
    one_text: bool = False  # whether it takes all sentences of an annotation as one text
    options: Options

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.options = self.Options(**arguments)

    def arguments(self) -> dict[str, Any]:
        return asdict(self.options)

    def loss(self, captioner: WordCaptioner, pairs: PairBatch, tokens: Tensor, step: Step) -> Tensor:  # noqa: ARG002
        """The training loss, a scalar, of tokens int64 ``(B, T, L)``: the captioner's own."""
        return captioner.loss(pairs, tokens)

    def score(self, captioner: WordCaptioner, validation: Split) -> float | None:  # noqa: ARG002 - for subclasses
        """Score of an epoch, higher is better; None leaves it to the validation CIDEr.

        An objective under which the captioner does not learn to write whole sentences needs its own.
        """
        return None

    def keep(self, captioner: WordCaptioner, out: Path) -> None:
        """Write what the product needs beside the checkpoint `out`, whenever that is written."""


def _in(module: str, name: str) -> Callable[[], type[Objective]]:
    return lambda: cast("type[Objective]", getattr(import_module(f"{__name__}.{module}"), name))


OBJECTIVES = {"joint": _in("joint", "JointTraining"), "pretraining": _in("pretraining", "PreTraining")}
"""Every objective by its name; call the value for its class.

A class takes the captioner, the training split and, by keyword, its `Options`.
"""
