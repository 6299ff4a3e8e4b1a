"""What a captioner tells about samples, as `narrated describe` would, and how right all of it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from models.captioner import Captioner, DescribeOptions, Sentence
from pipeline.changes import SceneEvent, find_changes
from pipeline.narration.narration import Narration, narrate
from train.checkpoints import trained_changes
from train.frame_pairs import frame_pair
from train.gallery.verdicts import Shares, Verdict, judge, shares
from train.progress import Count
from train.reliability import OperatingPoint, Reliability, choices, reliability
from train.samples import Sample

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, eq=False)
class GalleryPair:
    """What was told about one pair.

    Attributes:
        sample: the pair; its `changes` are empty where the truth is not known.
        narration: what was told.
        verdicts: one per sentence about objects; empty where the truth is not known.
    """

    sample: Sample
    narration: Narration
    verdicts: tuple[Verdict, ...]

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """Those about objects: a scene event's sentence is not the captioner's."""
        return self.narration.sentences if self.narration.event is SceneEvent.NONE else ()


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """How right the narrations of many pairs are.

    Attributes:
        all: of all sentences.
        groups: the same by camera, by kind of change and by object, each group by its name.
        changes, found: how many changes there are, and about how many of them a right sentence was told.
        unchanged, alarms: pairs in which nothing changed, and those of them about which something was told.
        reliability: of the confidence that a sentence is fully right.
        choices: what a threshold on the confidence gives.
    """

    all: Shares
    groups: Mapping[str, Mapping[str, Shares]]
    changes: int
    found: int
    unchanged: int
    alarms: int
    reliability: Reliability
    choices: tuple[OperatingPoint, ...]

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "sentences": asdict(self.all),
            "groups": {name: {k: asdict(v) for k, v in rows.items()} for name, rows in self.groups.items()},
            "changes": self.changes,
            "found": self.found,
            "unchanged": self.unchanged,
            "alarms": self.alarms,
            "ece": _number(self.reliability.ece),
            "bins": self.reliability.counts.tolist(),
            "choices": [{k: _number(v) for k, v in asdict(row).items()} for row in self.choices],
        }


def tell(
    samples: Sequence[Sample],
    captioner: Captioner,
    *,
    truth: bool,
    options: DescribeOptions | None = None,
    progress: Count | None = None,
) -> list[GalleryPair]:
    """Narrate pairs as `narrated describe` does, and judge what is said.

    Raises:
        SampleError: a picture cannot be read, or the two of a pair differ in size.
    """
    changes = trained_changes(captioner)
    pairs = []
    for start in range(0, len(samples), _AT_ONCE):
        some = samples[start : start + _AT_ONCE]
        found = find_changes([frame_pair(sample) for sample in some], changes, captioner.salience)
        for sample, narration in zip(some, narrate(found, captioner, options), strict=True):
            one = GalleryPair(sample, narration, ())
            pairs.append(replace(one, verdicts=tuple(judge(one.sentences, sample))) if truth else one)
        if progress:
            progress(len(pairs), len(samples))
    return pairs


def figures(told: Iterable[GalleryPair]) -> Figures:
    """How right all of it is, of pairs whose truth is known."""
    pairs = list(told)
    counted = [(each, v) for each in pairs for v in each.verdicts if v.counted]
    verdicts = [v for _, v in counted]
    groups: dict[str, dict[str, list[Verdict]]] = {"camera": {}, "kind of change": {}, "object": {}}
    for v in verdicts:
        names = {"camera": v.camera or "-", "kind of change": v.sentence.type, "object": v.sentence.object}
        for group, name in names.items():
            groups[group].setdefault(name, []).append(v)
    confidence, right = [v.sentence.confidence for v in verdicts], [v.right for v in verdicts]
    tells = [[(id(each), k) for k in v.tells] for each, v in counted]
    changes = sum(len(each.sample.changes) for each in pairs)
    unchanged = [
        each for each in pairs if not each.sample.changes and not any(not o.sure for o in each.sample.objects)
    ]
    rows = choices(confidence, right, tells, changes)
    return Figures(
        all=shares(verdicts),
        groups={
            group: {name: shares(some[name]) for name in sorted(some, key=lambda n: (-len(some[n]), n))}
            for group, some in groups.items()
        },
        changes=changes,
        found=changes - rows[0].missed,
        unchanged=len(unchanged),
        alarms=sum(bool(each.sentences) for each in unchanged),
        reliability=reliability(np.clip(confidence, 0, 1), right),
        choices=tuple(rows),
    )


def _number(value: float) -> float | None:
    return None if isinstance(value, float) and math.isnan(value) else value
