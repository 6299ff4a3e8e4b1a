"""Scores as tables for people at a terminal, 80 columns wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from train.papers.evaluation import Evaluation
    from train.papers.metrics.file_scores import FileScores
    from train.papers.metrics.scores import TextScores
    from train.papers.metrics.truth import Truth

_HEADING = f"{'':32} " + " ".join(
    f"{name:>5}" for name in ("B-1", "B-2", "B-3", "B-4", "METE", "R-L", "CIDEr")
)


def score_line(name: str, scores: TextScores, meteor: float | None = None) -> str:
    figures = (*scores.bleu, meteor, scores.rouge_l, scores.cider)
    return f"{name[:32]:32} " + " ".join("    -" if x is None else f"{x:5.3f}" for x in figures)


def print_evaluation(name: str, found: Evaluation) -> None:
    """Text scores, whether it is right, and what the trivial rows say."""
    lines = [_HEADING, score_line(f"{name}, single", found.single)]
    lines += [score_line(f"  {group}", scores) for group, scores in found.groups]
    lines += [score_line(row, scores) for row, _, scores in found.trivial]
    if found.human:
        lines.append(score_line("one annotator, by others", found.human))
    lines.append(score_line(f"{name}, multi (T given)", found.multi))
    lines += [f"{found.distinct} different sentences about {found.single.pairs} pairs"]
    lines += truth_lines(found.truth, found.length_ratio)
    if found.perplexity is not None:
        lines.append(f"perplexity {found.perplexity:.2f}")
    if found.alignment:
        lines.append(
            f"alignment precision {found.alignment['precision']:.3f} of {found.alignment['sentences']} "
            f"sentences (by chance {found.alignment['chance']:.3f})"
        )
    if found.without_clusters:
        lines.append(f"{found.without_clusters} pairs without a cluster, and so without a caption")
    lines += [f'{row}: "{sentence}"' for row, sentence, _ in found.trivial if sentence]
    typer.echo("\n".join(lines))


def print_file_scores(found: FileScores) -> None:
    """The predictions, their groups, the trivial rows, and whether they are right."""
    first, *others = found.rows
    lines = [_HEADING, score_line(first.name, first.scores, first.further.get("meteor"))]
    lines += [score_line(f"  {group}", scores) for group, scores in found.groups]
    lines += [score_line(row.name, row.scores, row.further.get("meteor")) for row in others]
    lines += truth_lines(found.truth, found.length_ratio)
    if first.further.get("spice") is not None:
        lines.append(f"SPICE {first.further['spice']:.3f}")
    lines += [f'{row.name}: "{row.sentence}"' for row in found.rows if row.sentence]
    typer.echo("\n".join(lines))


def truth_lines(truth: Truth, length_ratio: float) -> list[str]:
    """The shares of right first sentences, the silences, and LenRatio."""
    return [
        (
            f"right, of {truth.pairs} pairs with a change: type {_share(truth.type)}, polarity "
            f"{_share(truth.polarity)},"
        ),
        f"  object {_share(truth.object)}, place {_share(truth.place)}, all three {_share(truth.all)}",
        f"no change: precision {_share(truth.no_change_precision)}, recall {_share(truth.no_change_recall)}",
        f"LenRatio {length_ratio:.3f}",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
