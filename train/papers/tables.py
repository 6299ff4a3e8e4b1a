"""Tables of `narrated-train compare` in Markdown, in the papers' own form, theirs and ours told apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from train.learning.batches import Split
from train.papers.claims import GAIN, Found, difference
from train.papers.results import Result, Spread, pair_ciders, spread
from train.papers.suites import Column, PaperTable, Suite

_RIGHT = (
    Column("type", "truth.type"),
    Column("polarity", "truth.polarity"),
    Column("object", "truth.object"),
    Column("place", "truth.place"),
    Column("all three", "truth.all"),
    Column("no change, precision", "truth.no_change_precision"),
    Column("no change, recall", "truth.no_change_recall"),
    Column("alignment precision", "alignment.precision"),
    Column("by chance", "alignment.chance"),
)
_COST = (
    Column("parameters", "parameters", 0),
    Column("peak memory, MiB", "peak_mib", 0),
    Column("samples/s", "samples_per_s", 0),
    Column("s/epoch", "seconds_per_epoch", 1),
    Column("best epoch", "best_epoch", 1),
)
_HOW = (
    "Both systems have the same seeds and pairs. The interval is that of a t test over both: the variance of "
    "the seeds' mean differences by their number plus that of the pairs' by theirs, with Satterthwaite's "
    "degrees of freedom (of a figure that is no mean over pairs, over seeds alone; of perplexities, the "
    "logarithms' difference, on the same sentences). It lies above a true zero in one case of twenty at "
    "most. *gain* is what the paper prints, as a share of the worse (*ours*: it prints none, a twentieth is "
    "looked for); *power* is how probably so much would be shown at the measured spread. **Shown**: the "
    "interval lies above 0. **Not shown**: it lies below, or reaches 0 although the power is .8. "
    "**Cannot be told**: all the rest, and whatever has fewer than three seeds."
)
_GROUPS = (Column("BLEU-4", "bleu.3"), Column("ROUGE-L", "rouge_l"), Column("CIDEr", "cider"))
_THEIR_TYPES = {"appeared": "add", "disappeared": "drop", "moved": "move"}
"""Our types of change, and what the authors of CLEVR-Change call them."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a comparison found.

    Attributes:
        suite: of the paper.
        measured: the split that was measured on.
        results: of all rows and seeds.
        trivial: of systems that look at no picture.
        found: what became of the paper's claims.
        about: lines about how it was made.
        notes: what is missing.
    """

    suite: Suite
    measured: Split
    results: tuple[Result, ...]
    trivial: tuple[Result, ...]
    found: tuple[Found, ...]
    about: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def of(self, row: str) -> list[Result]:
        """The results of a row, by seed."""
        return sorted((r for r in self.results if r.row == row), key=lambda r: r.seed)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Keys and labels of the rows that have results, in the suite's order."""
        return [(row.key, row.label) for row in self.suite.rows if self.of(row.key)]


def markdown(report: Report) -> str:
    """The whole report; it ends with a line break."""
    suite = report.suite
    head = [f"# {suite.name}", "", f"{suite.paper}.", "", *(f"{line}  " for line in report.about), ""]
    head += [
        (
            f"Rows marked *theirs* are the figures that the paper prints, of its own data ({suite.data}), "
            "encoder and sizes: they stand here to be seen, and do not compare with ours. ± is the standard "
            "deviation over seeds."
        ),
        "",
        *(f"{note}\n" for note in suite.notes),
    ]
    parts = [head, *(_paper_table(table, report) for table in suite.tables)]
    parts += [_right(report), _groups(report), _claims(report), _cost(report), _trivial_sentences(report)]
    if report.notes:
        parts.append([*(f"- {note}" for note in report.notes), ""])
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _paper_table(table: PaperTable, report: Report) -> list[str]:
    labels = dict(report.rows)
    keys = [key for key in table.rows if key in labels]
    if not keys:
        return []
    with_interval = table.columns and any(c.value.endswith(".cider") for c in table.columns)
    headings = [c.heading for c in table.columns] + (["CIDEr, 95 %"] if with_interval else [])
    lines = []
    for key in keys:
        cells = [_cell(spread(report.of(key), c.value), c, table.times) for c in table.columns]
        if with_interval:
            cells.append(_interval(report, key, table))
        lines.append([labels[key], *cells])
        if key in table.theirs:
            theirs = [_number(value, c, 1) for value, c in zip(table.theirs[key], table.columns, strict=True)]
            lines.append(["*theirs*", *(f"*{cell}*" for cell in theirs), *([""] if with_interval else [])])
    if any(c.value.split(".")[0] in ("single", "multi", "groups") for c in table.columns):
        for result in report.trivial:
            cells = [_number(result.value(c.value), c, table.times) for c in table.columns]
            lines.append([f"_{result.label}_", *cells, *([""] if with_interval else [])])
    return [f"## {table.title}", "", *_lines(["", *headings], lines), ""]


def _interval(report: Report, key: str, table: PaperTable) -> str:
    path = next(c.value for c in table.columns if c.value.endswith(".cider"))
    scores = pair_ciders(report.of(key), report.measured, path)
    if scores is None:
        return "-"
    places = 1 if table.times > 1 else 3
    low, high = (f"{table.times * x:.{places}f}" for x in difference(scores).interval())
    return f"[{low}, {high}]"


def _right(report: Report) -> list[str]:
    lines = [
        [label, *(_cell(spread(report.of(key), c.value), c, 1) for c in _RIGHT)] for key, label in report.rows
    ]
    lines += [[f"_{r.label}_", *(_number(r.value(c.value), c, 1) for c in _RIGHT)] for r in report.trivial]
    return [
        "## Is it right?",
        "",
        (
            "Of pairs with a change whose first sentence tells one: shares whose type, polarity, object and "
            "place agree with some reference; of all pairs: precision and recall of telling no change."
        ),
        "",
        *_lines(["", *(c.heading for c in _RIGHT)], lines),
        "",
    ]


def _groups(report: Report) -> list[str]:
    names = list(dict.fromkeys(n for r in report.results for n in r.evaluation.get("groups", {})))
    if not names:
        return []
    kinds = [n for n in names if n in ("changed", "distractor")]
    columns = [(f"{n}: {c.heading}", Column("", f"groups.{n}.{c.value}")) for n in kinds for c in _GROUPS]
    columns += [(f"{n}: CIDEr", Column("", f"groups.{n}.cider")) for n in names if n not in kinds]
    lines = []
    for key, label in report.rows:
        lines.append([label, *(_cell(spread(report.of(key), c.value), c, 1) for _, c in columns)])
        theirs = report.suite.types.get(key)
        if theirs:
            cells = []
            for _, column in columns:
                name = column.value.split(".")[1]
                value = theirs.get(_THEIR_TYPES.get(name, name))
                cells.append("" if value is None else f"*{value / 100:.3f}*")
            lines.append(["*theirs*", *cells])
    lines += [
        [f"_{r.label}_", *(_number(r.value(c.value), c, 1) for _, c in columns)] for r in report.trivial
    ]
    return [
        "## Changed and distractor pairs, and types of change",
        "",
        "Each group is scored by its own references: CIDEr of two groups do not compare.",
        "",
        *_lines(["", *(name for name, _ in columns)], lines),
        "",
    ]


def _claims(report: Report) -> list[str]:
    if not report.found:
        return []
    labels = dict(report.rows)
    lines = []
    for found in report.found:
        claim, measured = found.claim, found.difference
        low, high = measured.interval()
        lines.append(
            [
                claim.text,
                claim.value,
                f"{labels[claim.better]} {found.better:.3f}",
                f"{claim.worse_value.rpartition('.')[2] or labels[claim.worse]} {found.worse:.3f}",
                f"[{low:+.3f}, {high:+.3f}]" if high < math.inf else "",
                f"{measured.seeds}" + (f" x {measured.pairs}" if measured.pairs else ""),
                f"{GAIN if found.printed is None else found.printed:.1%}"
                + (" *ours*" if found.printed is None else ""),
                f"{found.power:.2f}",
                found.verdict,
            ]
        )
    headings = ["claim", "figure", "should be better", "should be worse", "difference, 95 %", "seeds x pairs"]
    return [
        "## What the paper claims",
        "",
        _HOW,
        "",
        *_lines([*headings, "gain", "power", "here"], lines),
        "",
    ]


def _cost(report: Report) -> list[str]:
    lines = [
        [label, *(_cell(spread(report.of(key), c.value), c, 1) for c in _COST)] for key, label in report.rows
    ]
    note = "Peak memory is that of the whole process (on a GPU: of its memory); samples are annotations."
    return ["## Cost", "", note, "", *_lines(["", *(c.heading for c in _COST)], lines), ""]


def _trivial_sentences(report: Report) -> list[str]:
    constants = [(r.label, r.evaluation.get("sentence")) for r in report.trivial]
    return [*(f'{label}: "{text}"  ' for label, text in constants if text), ""]


def _lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in headings[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows)]


def _cell(found: Spread | None, column: Column, times: float) -> str:
    if found is None:
        return "-"
    mean = _number(found.mean, column, times)
    if found.deviation is None:
        return mean
    return f"{mean} ± {_number(found.deviation, column, times)}"


def _number(value: float | None, column: Column, times: float) -> str:
    if value is None:
        return "-"
    own = times if column.value != "perplexity" else 1
    return f"{own * value:,.{column.places}f}"
