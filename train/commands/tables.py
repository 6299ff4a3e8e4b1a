"""Results as tables and JSON for people at a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from train.learning.evaluation import Evaluation
    from train.metrics.annotations import AnnotationStatistics
    from train.metrics.claims import Truth
    from train.metrics.scores import TextScores

TABLE_1 = {
    "annotations": "13,192",
    "sentences_mean": "1.86",
    "sentences_sd": "1.01",
    "words_mean": "10.96",
    "words_sd": "4.97",
    "long_share": "5 %",
    "vocabulary": "2,404",
    "frequent": "1,000",
    "frequent_share": "97 %",
}
"""What the paper prints for Spot-the-diff (a little more data than was released)."""

_LABELS = {
    "annotations": "annotations",
    "pairs": "distinct pairs",
    "sentences": "sentences",
    "empty": "sentences without a word",
    "number_only": "sentences that are only a number",
    "sentences_mean": "sentences per annotation, mean",
    "sentences_sd": "sentences per annotation, s.d.",
    "words_mean": "words per sentence, mean",
    "words_sd": "words per sentence, s.d.",
    "long_share": "sentences over 20 words",
    "vocabulary": "vocabulary",
    "frequent": "words seen 5 times or more",
    "frequent_share": "running words they cover",
}


def statistics_table(rows: dict[str, AnnotationStatistics], *, paper: bool = True) -> Table:
    """Splits side by side, and the paper's Table 1 where it is about them."""
    further = ("paper, Table 1",) if paper else ()
    table = Table("", *(f"{name}" for name in rows), *further, title="Annotations")
    plain = {name: asdict(row) for name, row in rows.items()}
    for key, label in _LABELS.items():
        values = [_shown(key, plain[name][key]) for name in rows]
        table.add_row(label, *values, *([TABLE_1.get(key, "")] if paper else []))
    return table


def score_table(name: str, evaluation: Evaluation) -> Table:
    """Text scores, the trivial rows below them."""
    headings = ("BLEU-1", "-2", "-3", "-4", "ROUGE-L", "CIDEr-D", "pairs")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("text scores", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(f"{name}, single", *_cells(evaluation.single), style="bold")
    for row, scores in evaluation.groups:
        table.add_row(f"  {row}", *_cells(scores))
    for row, _, scores in evaluation.trivial:
        table.add_row(row, *_cells(scores))
    if evaluation.human:
        table.add_row("one annotator, by others", *_cells(evaluation.human))
    table.add_section()
    table.add_row(f"{name}, multi (T given)", *_cells(evaluation.multi), style="bold")
    return table


def truth_lines(truth: Truth, length_ratio: float) -> list[str]:
    """What is right, in one line each."""
    return [
        (
            f"first sentence right, of {truth.pairs} pairs with a change: type {_share(truth.type)}, "
            f"polarity {_share(truth.polarity)}, object {_share(truth.object)}, place {_share(truth.place)}, "
            f"all three {_share(truth.all)}"
        ),
        f"no change: precision {_share(truth.no_change_precision)}, recall {_share(truth.no_change_recall)}",
        f"LenRatio {length_ratio:.3f}",
    ]


def print_evaluation(name: str, evaluation: Evaluation) -> None:
    """Text scores, what is right, and what the trivial rows say."""
    lines = evaluation_lines(evaluation)
    Console().print(score_table(name, evaluation), *lines, sep="\n", soft_wrap=True)


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """What is right, and what the trivial rows say, in one line each."""
    alignment, lines = evaluation.alignment, truth_lines(evaluation.truth, evaluation.length_ratio)
    if evaluation.perplexity is not None:
        lines.append(f"perplexity {evaluation.perplexity:.2f}")
    if alignment:
        lines.append(
            f"alignment precision {alignment.precision:.3f} of {alignment.sentences} sentences "
            f"(by chance {alignment.chance:.3f})"
        )
    if evaluation.without_clusters:
        lines.append(f"{evaluation.without_clusters} pairs without a cluster, about which nothing is said")
    lines += [f'{row}: "{sentence}"' for row, sentence, _ in evaluation.trivial if sentence]
    return lines


def _cells(scores: TextScores) -> list[str]:
    return [f"{x:.3f}" for x in (*scores.bleu, scores.rouge_l, scores.cider)] + [str(scores.pairs)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _shown(key: str, value: float) -> str:
    if key.endswith("_share"):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
