"""How right predictions are, by the benchmark's own scorer: by camera, by group, by type of label."""

from __future__ import annotations

import importlib.util
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from predictors import BENCH, Pair, Predictions

KINDS = ("appeared", "disappeared", "moved")
LEAST_LABELS = 20
BINS = 10

Verdict = tuple[float, bool]
"""Of one sentence: its confidence 0..1, and whether it is true."""


@dataclass(frozen=True)
class Row:
    """A predictor: what it says, once for each seed."""

    name: str
    seeds: Sequence[Predictions]


@dataclass(frozen=True)
class Group:
    """Pairs of one kind of scene and gap: their salient labels (of one seed) and their FULL_F1."""

    name: str
    labels: int
    full_f1: float


@dataclass(frozen=True)
class Calibration:
    """What confidence is worth.

    Attributes:
        sentences: how many.
        true: their share that is true.
        confidence: their mean confidence.
        ece: expected calibration error, ten bins of equal width.
        auc: chance that a true sentence has more confidence than a false one.
    """

    sentences: int
    true: float
    confidence: float
    ece: float
    auc: float


@dataclass(frozen=True)
class Line:
    """How right a row is on some pairs.

    Attributes:
        figures: the scorer's; "exact count" of all matched labels, and of those "of several" objects;
            "told as moved", of the sentences about certain appeared or disappeared labels.
        interval: of FULL_F1, 95 %, drawing cameras.
        seeds: FULL_F1 of each seed.
        cameras: FULL_F1 of each camera that has a salient label.
        groups: by scene and gap, the worst first.
        confusion: of labels of certain identity; by type and by what they were told as, sentences;
            under "not told" labels.
        calibration: None where a predictor gives no confidence.
    """

    figures: Mapping[str, float]
    interval: tuple[float, float]
    seeds: tuple[float, ...]
    cameras: Mapping[str, float]
    groups: tuple[Group, ...]
    confusion: Mapping[str, Mapping[str, int]]
    calibration: Calibration | None

    @property
    def camera_mean(self) -> float:
        """Every camera counts the same."""
        return statistics.fmean(self.cameras.values()) if self.cameras else float("nan")

    @property
    def worst(self) -> Group | None:
        """The worst group that is large enough to say something."""
        return next((group for group in self.groups if group.labels >= LEAST_LABELS), None)


def loaded_scorer() -> ModuleType:
    """score.py of the benchmark."""
    return loaded("score")


def loaded(name: str) -> ModuleType:
    """A script of the benchmark's folder as a module."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{BENCH / name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scored(scorer: ModuleType, pairs: Sequence[Pair], row: Row) -> Line:
    """A row's figures on some pairs, the counts of its seeds added up."""
    counters: list[Counter[str]] = []
    cameras, groups = defaultdict(list), defaultdict(list)
    alone, judged = [], []
    for told in row.seeds:
        own = [counted(scorer, pair, told.get(pair["id"], [])) for pair in pairs]
        alone.append(scorer.figures(scorer.total(own))["FULL_F1"])
        for pair, counts in zip(pairs, own, strict=True):
            cameras[pair["camera"]].append(counts)
            groups[scene_and_gap(pair)].append(counts)
            judged += verdicts(scorer, pair, told.get(pair["id"], []))
        counters += own
    total = scorer.total(counters)
    low, high = scorer.bootstrap(counters, [pair["camera"] for _ in row.seeds for pair in pairs])["FULL_F1"]
    by_camera = {name: scorer.figures(scorer.total(own))["FULL_F1"] for name, own in cameras.items()}
    return Line(
        {**scorer.figures(total), **further_figures(scorer, total)},
        (low, high),
        tuple(alone),
        {name: value for name, value in by_camera.items() if value == value},  # noqa: PLR0124 - NaN
        _groups(scorer, groups, len(row.seeds)),
        confusion(total),
        calibration(judged),
    )


def scene_and_gap(pair: Pair) -> str:
    """The group that a pair belongs to."""
    return f"{pair['conditions'].get('scene')}, {pair['conditions'].get('gap')}"


def counted(scorer: ModuleType, pair: Pair, sentences: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The scorer's counts of a pair, and what it does not count: the numbers told, and what is not told.

    Of each label that sentences are matched with: whether these tell as many objects as it has, by the
    scorer's own reading and matching. What a plural sentence tells of further labels is theirs; an object
    that is told as gone here and come there is one; "several" is no number.
    """
    counts = Counter(scorer.score_pair(pair, sentences))
    told: dict[int, Counter[str]] = {}
    hit: set[int] = set()
    for sentence, (label, covered) in _matched(scorer, pair, sentences):
        if label is None:
            continue
        hit |= {label, *covered}
        claim, own = sentence["claim"], told.setdefault(label, Counter())
        number = claim["count"] - sum(pair["changes"][k].get("count", 1) for k in covered)
        sides = {"appeared": ("after",), "more": ("after",), "disappeared": ("before",), "fewer": ("before",)}
        for side in sides.get(claim["type"], ("before", "after")):
            own[side] += number
        own["open"] += claim["open"]
    for label, own in told.items():
        change = pair["changes"][label]
        right = not own["open"] and max(own["before"], own["after"]) in _numbers(change)
        counts.update(numbers=1, number_right=right)
        if change.get("count", 1) > 1:
            counts.update(groups=1, group_right=right)
    for k, change in enumerate(pair["changes"]):
        if k not in hit and change["salient"] and change.get("identity") != "unsure":
            counts[f"{change['type']} not told"] += 1
    return counts


def further_figures(scorer: ModuleType, total: Counter[str]) -> dict[str, float]:
    """Ratios of the counts that the scorer does not make into figures."""
    come_and_gone = [name for name in total if name.startswith(("appeared told as ", "disappeared told as "))]
    moved = total["appeared told as moved"] + total["disappeared told as moved"]
    return {
        "exact count": scorer.div(total["number_right"], total["numbers"]),
        "of several": scorer.div(total["group_right"], total["groups"]),
        "told as moved": scorer.div(moved, sum(total[name] for name in come_and_gone)),
    }


def confusion(total: Counter[str]) -> dict[str, dict[str, int]]:
    """What certain labels of each type were told as; "otherwise" is replaced, or no verb."""
    rows = {}
    for label in KINDS:
        of_label = {n.rpartition(" ")[2]: c for n, c in total.items() if n.startswith(f"{label} told as ")}
        row = {kind: of_label.pop(kind, 0) for kind in KINDS}
        rows[label] = {**row, "otherwise": sum(of_label.values()), "not told": total[f"{label} not told"]}
    return rows


def verdicts(scorer: ModuleType, pair: Pair, sentences: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Whether each sentence that counts and has a confidence is fully right: type, object family, place."""
    judged = []
    for sentence, (label, _) in _matched(scorer, pair, sentences):
        box, claim = sentence["box"], sentence["claim"]
        if sentence["confidence"] is None:
            continue
        if label is None:
            if box is None or not any(scorer.inside(scorer.centre(box), r) for r in pair.get("ignore", [])):
                judged.append((sentence["confidence"], False))
            continue
        change = pair["changes"][label]
        right = scorer.type_ok(claim, change, box) and scorer.object_ok(claim, change)[1]
        judged.append((sentence["confidence"], bool(right and scorer.pos_strict(sentence, change))))
    return judged


def calibration(judged: Sequence[Verdict]) -> Calibration | None:
    """Whether confidence is a probability (ECE), and separates true from false (AUC; NaN without both)."""
    if not judged:
        return None
    bins: dict[int, list[Verdict]] = defaultdict(list)
    for confidence, true in judged:
        bins[min(int(confidence * BINS), BINS - 1)].append((confidence, true))
    off = [abs(sum(c - t for c, t in each)) for each in bins.values()]
    right = [c for c, true in judged if true]
    wrong = [c for c, true in judged if not true]
    above = sum((r > w) + (r == w) / 2 for r in right for w in wrong)
    return Calibration(
        len(judged),
        len(right) / len(judged),
        statistics.fmean(confidence for confidence, _ in judged),
        sum(off) / len(judged),
        above / (len(right) * len(wrong)) if right and wrong else float("nan"),
    )


def _matched(
    scorer: ModuleType, pair: Pair, sentences: Sequence[Mapping[str, Any]]
) -> list[tuple[dict[str, Any], tuple[int | None, list[int]]]]:
    """Every sentence that claims a change, and the label that the scorer takes it to mean."""
    said = [
        {"claim": scorer.parse(s["text"]), "box": s.get("box"), "confidence": s.get("confidence")}
        for s in sentences
    ]
    said = [s for s in said if not s["claim"]["none"]]
    return list(zip(said, scorer.assign(said, pair["changes"]), strict=True))


def _groups(
    scorer: ModuleType, groups: Mapping[str, Sequence[Counter[str]]], seeds: int
) -> tuple[Group, ...]:
    found = []
    for name, own in groups.items():
        total = scorer.total(own)
        if total["salient"]:
            found.append(Group(name, total["salient"] // seeds, scorer.figures(total)["FULL_F1"]))
    return tuple(sorted(found, key=lambda group: group.full_f1))


def _numbers(change: Mapping[str, Any]) -> set[int]:
    """How many objects a label has: a rider and his bicycle may be told as one or as two."""
    count = change.get("count", 1)
    return {count, change.get("parts") or count}
