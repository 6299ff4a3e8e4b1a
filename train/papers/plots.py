"""Pictures of a comparison: loss curves, and bars with 95 % intervals. They need matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from train.papers.claims import difference
from train.papers.results import Result, pair_ciders, spread
from train.papers.tables import Report

_INK, _GRID, _DPI = "0.25", "0.9", 130


class MissingPlotsError(RuntimeError):
    """matplotlib is not installed; the message says what to do."""


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Write ``loss.png`` and ``cider.png``, and ``all-sentences.png`` where the paper has such a table.

    Raises:
        MissingPlotsError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingPlotsError("plots need matplotlib: pip install 'narrated[plots]'")
    written = [_loss(report, folder / "loss.png"), _bars(report, folder / "cider.png", "single.cider")]
    if any(c.value.startswith("multi.") for table in report.suite.tables for c in table.columns):
        written.append(_bars(report, folder / "all-sentences.png", "multi.cider"))
    return written


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(colors=_INK)
        each.grid(axis="y", color=_GRID)
        each.set_axisbelow(True)
    return figure, axes


def _loss(report: Report, path: Path) -> Path:
    """Training loss and validation CIDEr over epochs, a line for each seed."""
    figure, axes = _figure(11, 4.2, 2)
    for number, (key, label) in enumerate(report.rows):
        for result in report.of(key):
            if len(result.curves) < 2:  # noqa: PLR2004 - no line
                continue
            for axis, figure_name in zip(axes, ("train_loss", "val_cider"), strict=True):
                epochs, values = _curve(result, figure_name)
                first = result.seed == report.of(key)[0].seed
                axis.plot(epochs, values, color=f"C{number % 10}", lw=1.3, label=label if first else None)
    for axis, title in zip(axes, ("training loss per annotation", "validation CIDEr"), strict=True):
        axis.set_title(title, color=_INK, fontsize=10, loc="left")
        axis.set_xlabel("epoch", color=_INK)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path)
    return path


def _curve(result: Result, name: str) -> tuple[list[int], list[float]]:
    points = [(p["epoch"], p[name]) for p in result.curves if p.get(name) is not None]
    return [int(e) for e, _ in points], [float(v) for _, v in points]


def _bars(report: Report, path: Path, value: str) -> Path:
    """A bar for each row with its 95 % interval and a dot for each seed; trivial rows as grey bars."""
    rows = [(label, report.of(key)) for key, label in report.rows]
    every = [*rows, *((r.label, [r]) for r in report.trivial)]
    figure, (axis,) = _figure(8, 0.42 * len(every) + 1.1)
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x", color=_GRID)
    for place, (_, results) in enumerate(every):
        found = spread(results, value)
        if found is None:
            continue
        colour = "C0" if place < len(rows) else "0.75"
        axis.barh(place, found.mean, color=colour, height=0.66)
        scores = pair_ciders(results, report.measured, value)
        if scores is not None:
            low, high = difference(scores).interval()
            axis.plot([low, high], [place, place], color=_INK, lw=1.2)
        if len(results) > 1:
            axis.plot(_values(results, value), [place] * len(results), "o", color=_INK, ms=3)
    axis.set_yticks(range(len(every)), [label for label, _ in every])
    axis.invert_yaxis()
    words = "all sentences" if value.startswith("multi") else "single sentence"
    axis.set_title(
        f"CIDEr, {words}: mean over seeds, 95 % interval, seeds as dots", color=_INK, fontsize=10, loc="left"
    )
    figure.savefig(path)
    return path


def _values(results: Sequence[Result], value: str) -> list[float]:
    return [v for r in results if (v := r.value(value)) is not None]
