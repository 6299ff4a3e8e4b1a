"""Tables of `narrated-train compare`, 80 columns wide, in the papers' own form, theirs below ours."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from train.papers.batches import Split
from train.papers.claims import GAIN, ExaminedClaim, difference
from train.papers.results import Result, result_ciders
from train.papers.suites import PaperTable, Suite

WIDTH = 80
_LABEL = 24
_SHORT = {"METEOR": "METE", "ROUGE-L": "R-L", "perplexity": "perpl", "LenRatio": "LenR"}
_SHORT |= {f"BLEU-{n}": f"B-{n}" for n in range(1, 5)}
_RIGHT = {
    "type": "truth.type",
    "polar": "truth.polarity",
    "object": "truth.object",
    "place": "truth.place",
    "all": "truth.all",
    "no-P": "truth.no_change_precision",
    "no-R": "truth.no_change_recall",
    "said": "distinct",
}
_HOW = """\
A difference is tested over seeds and pairs: the variance of the seeds' means by their number plus that of
the pairs' by theirs, with Satterthwaite's degrees of freedom; the interval is one of 95 %. *Gain* is what the
paper prints, as a share of the worse figure (*ours*: it prints none); *power* is how probably so much would
be shown at the measured spread. Shown: the interval lies above 0. Reversed: below. Not shown: it reaches 0
although the power is .8. There is no verdict where a system does not beat the best constant of the training
captions, or where another number of seeds ran than the suite has."""


@dataclass(frozen=True, slots=True)
class Report:
    name: str  # name, suite: of the paper
    suite: Suite
    measured: Split  # the split that was measured on
    results: tuple[Result, ...]  # of all systems and seeds
    trivial: tuple[Result, ...]  # of systems that look at no picture
    examined: tuple[ExaminedClaim, ...]  # the paper's claims
    about: tuple[str, ...]  # lines about how it was made

    def of(self, row: str) -> list[Result]:
        return sorted((r for r in self.results if r.row == row), key=lambda r: r.seed)


def page(report: Report) -> str:
    suite = report.suite
    cameras = len({sample.camera for sample in report.measured.samples})
    parts = [
        f"# {report.name}",
        f"{suite.paper}.",
        _bullets(report.about),
        (
            f"Rows *theirs* are the figures that the paper prints, of its own data ({suite.data}), encoder "
            "and sizes: they are here to be seen, and do not compare with ours. ± is the standard deviation "
            "over seeds, CIDEr's interval one of 95 % over seeds and pairs (of one seed over pairs alone). "
            f"Pairs are taken as independent; those measured are of {cameras} cameras. *said* is how many "
            "different sentences are said."
        ),
        *suite.notes,
    ]
    for table in suite.tables:
        if any(report.of(key) for key in table.rows):
            parts += [f"## {table.title}", paper_table(table, report)]
    rows = [(system.label, report.of(key)) for key, system in suite.systems.items()]
    rows += [(r.row, [r]) for r in report.trivial]
    parts += [
        "## Is it right?",
        (
            "Of pairs with a change whose first sentence says one: shares whose type, polarity, object and "
            "place agree with some reference; of all pairs: precision and recall of silence."
        ),
        _block([(label, _cells(own, _RIGHT, 1)) for label, own in rows if own], list(_RIGHT)),
    ]
    if report.examined:
        chance = len(report.examined) * (1 - 0.95) / 2
        parts += [
            "## What the paper claims",
            f"{_HOW} Were none of {len(report.examined)} claims true, about {chance:.1f} would be shown.",
            "```\n" + "\n".join(claim_lines(report.examined)) + "\n```",
        ]
    constants = _bullets([f'{r.row}: "{r.single[0]}"' for r in report.trivial if r.value("distinct") == 1])
    wrapped = [part if part[0] in "#`*" else _wrap(part) for part in (*parts, constants) if part]
    return "\n\n".join(wrapped) + "\n"


def paper_table(table: PaperTable, report: Report) -> str:
    places = {column: table.value(column) for column in table.columns}
    lines: list[tuple[str, list[str]]] = []
    for key, printed in table.rows.items():
        own = report.of(key)
        if not own:
            continue
        lines.append((report.suite.systems[key].label, _cells(own, places, table.times)))
        if printed:
            figures = zip(printed, places, strict=True)
            theirs = [_cell([None if x is None else x / table.times], c, table.times) for x, c in figures]
            lines.append(("  theirs", theirs))
        ciders = result_ciders(own, report.measured, table.value("CIDEr")) if "CIDEr" in places else None
        if ciders is not None:
            digits = 1 if table.times > 1 else 3
            low, high = (f"{table.times * x:.{digits}f}" for x in difference(ciders).interval())
            lines.append((f"  CIDEr 95 % [{low}, {high}]", [""] * len(places)))
    if table.setting:
        lines += [(r.row, _cells([r], places, table.times)) for r in report.trivial]
    return _block(lines, [_SHORT.get(column, column) for column in places])


def claim_lines(examined: Sequence[ExaminedClaim]) -> list[str]:
    """Every claim with its figures and verdict, wrapped to 80 columns."""
    lines = []
    for each in examined:
        low, high = each.difference.interval()
        gain = f"gain {GAIN:.0%} ours" if each.printed is None else f"gain {each.printed:.1%}"
        figures = (
            f"{each.better:.3f} against {each.worse:.3f}, {each.difference.mean:+.3f} "
            f"[{low:+.3f}, {high:+.3f}], {gain}, power {each.power:.2f}: {each.verdict}"
        )
        lines.append(f"{each.claim.text} ({each.claim.value})")
        lines += textwrap.wrap(figures, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


def _block(lines: Sequence[tuple[str, list[str]]], columns: list[str]) -> str:
    rows = [("", columns), *lines]
    widths = [max(len(cells[k]) for _, cells in rows) for k in range(len(columns))]
    shown = []
    for label, cells in rows:
        cut = label if label.startswith("  ") else textwrap.shorten(label, _LABEL, placeholder="…")
        figures = " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        shown.append(f"{cut:{_LABEL}} {figures}".rstrip())
    return "```\n" + "\n".join(shown) + "\n```"


def _cells(own: Sequence[Result], places: Mapping[str, str], times: float) -> list[str]:
    return [_cell([r.value(place) for r in own], column, times) for column, place in places.items()]


def _cell(values: Sequence[float | None], column: str, times: float) -> str:
    """The mean of some figures, of CIDEr with the standard deviation."""
    known = [v for v in values if v is not None and np.isfinite(v)]
    if not known:
        return "-"
    if column in ("said", "aligned sentences"):
        return f"{np.mean(known):.0f}"
    scale, places = (1.0, 2) if column == "perplexity" else (times, 1 if times > 1 else 3)
    mean = f"{scale * float(np.mean(known)):.{places}f}"
    mean = mean[1:] if mean.startswith("0.") else mean
    if column != "CIDEr" or len(known) < 2:  # noqa: PLR2004 - no deviation of one
        return mean
    return f"{mean}±{scale * float(np.std(known, ddof=1)):.{max(places - 1, 1)}f}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(_wrap(f"* {line}", "  ") for line in lines)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
