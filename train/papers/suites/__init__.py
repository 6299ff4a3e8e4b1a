"""The systems of each paper's tables, the figures that it prints, and the orderings that it claims.

A suite is a YAML file beside this one: systems with their training configuration (as in configs/train),
tables in the paper's own form, claims. "full" is the papers' setting, but for the encoder, which is that at
hand; "small" the same architectures with small dimensions, for a generated benchmark of about 1,200 training
pairs on one core. What stands under `base` is there to be referred to.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

SizeName = Literal["small", "full"]
FolderName = Literal["single_images", "classes"]

_FOLDER = Path(__file__).parent

SUITES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))  # every suite by its name

_PLACES = {"METEOR": "meteor", "ROUGE-L": "rouge_l", "CIDEr": "cider", "SPICE": "spice"}
_PLACES |= {f"BLEU-{n + 1}": f"bleu.{n}" for n in range(4)}
_PLACES |= {kind: f"{kind}.cider" for kind in ("appeared", "disappeared", "moved")}
"""Columns of a setting, and where their values stand in it."""

_ALONE = {
    "perplexity": "perplexity",
    "LenRatio": "length_ratio",
    "alignment": "alignment.precision",
    "by chance": "alignment.chance",
    "aligned sentences": "alignment.sentences",
}
"""Columns that belong to no setting."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class System(Strict):
    label: str  # the paper's name for it
    full: dict[str, Any]  # training configuration, see `train.papers.config.TrainConfig`; `version` is added
    small: dict[str, Any] = {}  # the differences of the small size, section by section
    seeded: tuple[str, ...] = ()  # arguments of the captioner that take the run's seed
    needs: tuple[FolderName, ...] = ()  # folders for its pre-training; without, the row is left out
    passes: int = 1  # how many times the epochs that are asked for it takes

    def content(self, size: SizeName) -> dict[str, Any]:
        content = merge({"version": 1}, self.full)
        return merge(content, self.small) if size == "small" else content


class PaperTable(Strict):
    title: str  # the paper's
    setting: str = ""  # of its columns: single, multi, groups, groups.changed or groups.distractor
    columns: tuple[str, ...]  # left to right
    # keys of systems, with the figures that the paper prints in the order of the columns; none where it
    # prints none
    rows: dict[str, tuple[float | None, ...]]
    times: float = 1.0  # our scores are multiplied by this, to be read as the paper's

    def value(self, column: str) -> str:
        return _ALONE.get(column) or f"{self.setting}.{_PLACES[column]}"


class Claim(Strict):
    text: str  # in words
    better: str  # better, worse: keys of systems
    worse: str
    value: str = "single.cider"  # the figure that is compared, more is better; see `Result.value`
    worse_value: str = ""  # of the worse system; "" takes `value`
    less: bool = False  # less is better
    printed: str = ""  # the system whose printed figure stands for the worse one's; "" takes `worse`


class Suite(Strict):
    paper: str  # authors, title, place and year
    data: str  # the set of the paper's figures
    seeds: int  # of every system, fixed before any result is seen: with others there is no verdict
    systems: dict[str, System]  # all systems by their keys
    tables: tuple[PaperTable, ...]  # in the paper's order
    claims: tuple[Claim, ...]  # the orderings that it claims
    # sentences that stand in its page: where the small size has other settings than the paper, beyond sizes
    # and length
    notes: tuple[str, ...] = ()
    base: dict[str, Any] = {}  # parts of systems, for YAML's references

    def printed(self, row: str, value: str) -> float | None:
        """The figure that the paper prints of a row at a place; None where it prints none."""
        for table in self.tables:
            for column, figure in zip(table.columns, table.rows.get(row, ()), strict=False):
                if table.value(column) == value and figure is not None:
                    return figure
        return None


@lru_cache
def load_suite(name: str) -> Suite:
    return Suite.model_validate(yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings as one, nested ones section by section; the other's values win."""
    result = dict(one)
    for key, value in other.items():
        mine = result.get(key)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            value = merge(mine, value)  # noqa: PLW2901
        result[key] = value
    return result
