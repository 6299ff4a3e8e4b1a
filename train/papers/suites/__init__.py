"""What `narrated-train compare` trains: the rows of each paper's tables, and the figures that it printed.

A suite is plain values: rows with their training configuration (as in configs/train), tables in the paper's
own form, and the orderings that the paper claims. "full" is the papers' setting, but for the encoder, which
is that at hand; "small" the same architectures with small dimensions, for a generated benchmark of about
1,200 training pairs on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

SizeName = Literal["small", "full"]
SIZES: tuple[SizeName, ...] = ("small", "full")
FolderName = Literal["single_images", "classes"]


@dataclass(frozen=True, slots=True)
class System:
    """One system.

    Attributes:
        key: names its files.
        label: as the paper calls it.
        full: training configuration, see `train.learning.config.TrainConfig`; `version` is added.
        small: what differs from it in the small size, section by section.
        seeded: arguments of the captioner that take the run's seed.
        needs: arguments of its pre-training that take a folder, which the user gives or goes without the row.
    """

    key: str
    label: str
    full: Mapping[str, Any]
    small: Mapping[str, Any] = field(default_factory=dict)
    seeded: tuple[str, ...] = ()
    needs: tuple[FolderName, ...] = ()

    def content(self, size: SizeName) -> dict[str, Any]:
        """The training configuration of a size, as a YAML file would hold it."""
        content = merged({"version": 1}, self.full)
        return merged(content, self.small) if size == "small" else content


NARRATOR_ROW = System(
    "narrator", "the daemon's narrator, in the benchmark's words", {"captioner": "nn", "min_count": 1}
)
"""See `train.papers.narrator`; it is not trained, and its samples are those that NN has."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading and where its value stands in a result's evaluation, by dots."""

    heading: str
    value: str
    places: int = 3


BLEU = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")
_SCORES = {
    **{heading: f"bleu.{n}" for n, heading in enumerate(BLEU)},
    "METEOR": "meteor",
    "ROUGE-L": "rouge_l",
    "CIDEr": "cider",
    "SPICE": "spice",
}


def columns(setting: str, *headings: str, places: int = 3) -> tuple[Column, ...]:
    """Columns of text scores in a setting: single, multi, groups.changed or groups.distractor."""
    return tuple(Column(heading, f"{setting}.{_SCORES[heading]}", places) for heading in headings)


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        title: the paper's.
        columns: left to right.
        rows: keys of the suite's rows.
        theirs: the figures that the paper prints, by row and in the order of the columns; None where it
            prints none.
        times: our scores are multiplied by this, to be read as the paper's.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[str, ...]
    theirs: Mapping[str, tuple[float | None, ...]]
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """An ordering that the paper claims.

    Attributes:
        text: in words.
        better, worse: keys of rows.
        value: what is compared, more is better, as in `Column`.
        worse_value: of the worse row; "" takes `value`.
        less: less is better.
    """

    text: str
    better: str
    worse: str
    value: str = "single.cider"
    worse_value: str = ""
    less: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """Everything that `compare` needs to know of one paper.

    Attributes:
        name: of the command line.
        paper: authors, title, place and year.
        data: what the paper measured on.
        rows: all systems.
        tables: in the paper's order.
        claims: the orderings that it claims.
        pairs: training pairs of the small size, None for all.
        types: our types of change to the paper's, with the CIDEr that it prints for each row, times 100.
        notes: sentences that stand in its page: where the small size has other settings than the paper,
            beyond sizes and length.
    """

    name: str
    paper: str
    data: str
    rows: tuple[System, ...]
    tables: tuple[PaperTable, ...]
    claims: tuple[Claim, ...]
    pairs: int | None = None
    types: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings as one, nested ones section by section; the other's values win."""
    result = dict(one)
    for key, value in other.items():
        mine = result.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        result[key] = merged(mine, value) if both and isinstance(mine, Mapping) else value
    return result


def _in(module: str) -> Callable[[], Suite]:
    def load() -> Suite:
        suite: Suite = import_module(f"train.papers.suites.{module}").SUITE
        return suite

    return load


SUITES: dict[str, Callable[[], Suite]] = {
    "spot-the-diff": _in("spot_the_diff"),
    "clevr-change": _in("clevr_change"),
    "idc-pcl": _in("idc_pcl"),
    "spot-it": _in("spot_it"),
    "spot-the-diff-auxiliary": _in("spot_the_diff_auxiliary"),
    "birds-to-words": _in("birds_to_words"),
}
"""Every suite by its name; call the value for it."""
