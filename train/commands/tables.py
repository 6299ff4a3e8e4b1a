"""Scores as tables for people at a terminal, 80 columns wide."""

from collections.abc import Mapping
from typing import Any

import typer

_COLUMNS = ("B-1", "B-2", "B-3", "B-4", "METE", "R-L", "CIDEr")

Plain = Mapping[str, Any]


def print_evaluation(name: str, found: Plain, trivial: Mapping[str, Plain]) -> None:
    """The figures of `train.papers.evaluation.Evaluation`, between the trivial rows."""
    rows = {f"{name}, single": found["single"], **trivial, f"{name}, multi (T given)": found["multi"]}
    print_scores(rows, found)


def print_scores(rows: Mapping[str, Plain], found: Plain) -> None:
    """Text scores of some rows, of the first one's groups, and whether the first one is right."""
    lines = [f"{'':32} " + " ".join(f"{column:>5}" for column in _COLUMNS)]
    for number, (name, scores) in enumerate(rows.items()):
        lines.append(_score_line(name, scores))
        if not number:
            lines += [_score_line(f"  {group}", own) for group, own in found["groups"].items()]
    (_, first), *others = rows.items()
    lines.append(f"{found['distinct']} different sentences about {first['pairs']} pairs")
    lines += _truth_lines(found["truth"], found["length_ratio"])
    if first.get("spice") is not None:
        lines.append(f"SPICE {first['spice']:.3f}")
    if found.get("perplexity") is not None:
        lines.append(f"perplexity {found['perplexity']:.2f}")
    if alignment := found.get("alignment"):
        lines.append(
            f"alignment precision {alignment['precision']:.3f} of {alignment['sentences']} sentences "
            f"(by chance {alignment['chance']:.3f})"
        )
    if without := found.get("without_clusters"):
        lines.append(f"{without} pairs without a cluster, and so without a caption")
    lines += [f'{name}: "{row["sentence"]}"' for name, row in others if row.get("sentence")]
    typer.echo("\n".join(lines))


def _score_line(name: str, scores: Plain) -> str:
    figures = (*scores["bleu"], scores.get("meteor"), scores["rouge_l"], scores["cider"])
    return f"{name[:32]:32} " + " ".join("    -" if x is None else f"{x:5.3f}" for x in figures)


def _truth_lines(truth: Plain, length_ratio: float) -> list[str]:
    """The shares of right first sentences, the silences, and LenRatio."""
    shares = {name: "-" if value is None else f"{value:.3f}" for name, value in truth.items()}
    shown = [f"{name} {shares[name]}" for name in ("type", "polarity", "object", "place")]
    return [
        f"right, of {truth['pairs']} pairs with a change: {', '.join(shown[:2])},",
        f"  {', '.join(shown[2:])}, all three {shares['all']}",
        f"no change: precision {shares['no_change_precision']}, recall {shares['no_change_recall']}",
        f"LenRatio {length_ratio:.3f}",
    ]
