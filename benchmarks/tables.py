"""The figures of `quality.py` as Markdown and as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from predictors import Pair
from replays import Truth
from scoring import Calibration, Group, Line

SUM = "all"
HEADINGS = {
    "precision": "precision",
    "recall": "recall",
    "type acc": "type",
    "polarity acc": "polarity",
    "object family": "family",
    "object exact": "exact kind",
    "position acc": "place",
    "exact count": "exact count",
    "of several": "of several",
    "told as moved": "told as moved",
    "false alarms": "false alarms",
    "missed": "missed",
}
CONFUSION = ("appeared", "disappeared", "moved", "otherwise", "not told")


def pairs(title: str, judged: Sequence[Pair], lines: Mapping[str, Line]) -> str:
    """What was told of these pairs: figures, what certain labels were told as, what confidence is worth."""
    cameras = sorted({p["camera"] for p in judged})
    several = sum(c.get("count", 1) > 1 for p in judged for c in p["changes"])
    negatives = sum(not any(c["salient"] for c in p["changes"]) for p in judged)
    head = (
        f"\n**{title}**: {len(judged)} pairs, {negatives} of them without a salient change, {several} labels "
        f"of several objects; {len(cameras)} cameras ({', '.join(cameras)})\n"
    )
    sure = {name: line.calibration for name, line in lines.items() if line.calibration}
    return "\n".join([head, *figures(lines), "", *_confusion(lines), "", *_confidence(sure)])


def figures(lines: Mapping[str, Line]) -> list[str]:
    """A row a predictor, after two of headings."""
    titles = ["predictor", "FULL_F1 [95 % by camera]", "seeds", "mean over cameras", "worst group"]
    rows = []
    for name, line in lines.items():
        low, high = line.interval
        alone = sorted(line.seeds)
        rows.append(
            [
                name,
                f"{short(line.figures['FULL_F1'])} [{short(low)}, {short(high)}]",
                f"{short(alone[0])} to {short(alone[-1])}" if len(alone) > 1 else "",
                short(line.camera_mean),
                _worst(line.worst),
                *(short(line.figures[name]) for name in HEADINGS),
            ]
        )
    return _table([*titles, *HEADINGS.values()], rows)


def _confusion(lines: Mapping[str, Line]) -> list[str]:
    """A row a predictor and type of label; the counts of several seeds are added up."""
    rows = [
        [name, label, *(str(told[kind]) for kind in CONFUSION)]
        for name, line in lines.items()
        for label, told in line.confusion.items()
    ]
    return _table(["predictor", "certain label", *(f"told as {k}" for k in CONFUSION[:4]), "not told"], rows)


def _confidence(sure: Mapping[str, Calibration]) -> list[str]:
    rows = [
        [name, str(c.sentences), *(short(v) for v in (c.true, c.confidence, c.ece, c.auc))]
        for name, c in sure.items()
    ]
    titles = ["predictor", "sentences", "fully right", "mean confidence", "ECE", "AUC right against wrong"]
    return _table(titles, rows) if rows else []


def tracks(rows: Mapping[str, Mapping[str, Truth]]) -> str:
    """How true the replays are, a row a clip, and why sentences are false."""
    titles = ["predictor", "clip", "true", "false", "not judged", "of others", "precision"]
    titles += ["entrances told", "departures told", "ECE", "AUC true against false"]
    lines, reasons = [], []
    for name, clips in rows.items():
        for clip, truth in clips.items():
            counts = (truth.true, truth.false, truth.unknown, truth.other)
            events = [f"{told} of {of}" for told, of in (truth.entrances, truth.departures)]
            sure = truth.calibration
            worth = [short(sure.ece), short(sure.auc)] if sure else ["-", "-"]
            bold = f"**{clip}**" if clip == SUM else clip
            lines.append([name, bold, *map(str, counts), short(truth.precision), *events, *worth])
        why = ", ".join(f"{reason} {count}" for reason, count in clips[SUM].reasons.items())
        reasons.append(f"\n{name}, false because: {why or '-'}")
    return "\n".join(["\n**Replays judged by published tracks**\n", *_table(titles, lines), *reasons])


def plain(rows: Mapping[str, Line] | Mapping[str, Mapping[str, Truth]]) -> dict[str, Any]:
    """As JSON takes them, with what is worked out of them; NaN is null."""
    return {
        name: _line(row) if isinstance(row, Line) else {clip: _truth(truth) for clip, truth in row.items()}
        for name, row in rows.items()
    }


def short(value: float) -> str:
    """Three decimals, without the leading zero."""
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def _line(line: Line) -> dict[str, Any]:
    worst = asdict(line.worst) if line.worst else None
    values: dict[str, Any] = _values(asdict(line) | {"camera_mean": line.camera_mean, "worst": worst})
    return values


def _truth(truth: Truth) -> dict[str, Any]:
    sure = asdict(truth.calibration) if truth.calibration else None
    members = asdict(truth) | {"precision": truth.precision, "calibration": sure}
    del members["judged"]
    values: dict[str, Any] = _values(members)
    return values


def _values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _values(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_values(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _worst(group: Group | None) -> str:
    return f"{group.name}: {short(group.full_f1)} of {group.labels}" if group else "-"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows)]
