"""How many narrations there are, by hour, by camera, by object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from daemon.questions.local_time import DAY_NAMES, DAY_S
from daemon.search.selection import Loaded, Rows, Selection

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TABLE = 4_000_000
"""Groups up to which counting needs no sorting."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """One line of a count.

    Attributes:
        labels: one per grouping.
        narrations: how many.
        objects: of how many objects they tell; whoever comes twice is counted twice.
    """

    labels: tuple[str, ...]
    narrations: int
    objects: int


def counted(selection: Selection, loaded: Loaded, rows: Rows, by: Sequence[str]) -> list[Group]:
    """Count sentences' records and objects by some of `GROUPINGS`; by none, all in one group.

    Returns:
        Groups that are not empty, times in their order, others the most frequent first.
    """
    parts = list[tuple[int, int, Callable[[int], str]]]()
    codes: Codes | None = None
    for grouping in by:
        code, labeller = _coded(selection, loaded, rows, grouping)
        low = int(code.min()) if len(code) else 0
        size = int(code.max()) - low + 1 if len(code) else 1
        code = code if low == 0 else code - low
        codes = code if codes is None else codes * size + code
        parts.append((low, size, labeller))
    narrations, objects = _sums(loaded, rows, codes, per_sentence=not set(by).isdisjoint(_OF_SENTENCES))
    groups = []
    for group, count in narrations.items():
        labels, rest = list[str](), group
        for low, size, labeller in reversed(parts):
            rest, number = divmod(rest, size)
            labels.append(labeller(number + low))
        groups.append((group, Group(tuple(reversed(labels)), count, objects[group])))
    timed = not by or by[0] in _TIMES
    groups.sort(key=lambda item: item[0] if timed else (-item[1].narrations, item[1].labels))
    return [group for _, group in groups]


def _sums(
    loaded: Loaded, rows: Rows, codes: Codes | None, *, per_sentence: bool
) -> tuple[dict[int, int], dict[int, int]]:
    """Records and objects by code; None is one group of all."""
    count, record = loaded.sentences.count[rows], loaded.record[rows]
    whole = isinstance(rows, slice)
    if not len(record):
        return {}, {}
    if codes is None:
        told = len(loaded.times) if whole else np.count_nonzero(np.diff(record, prepend=-1))
        return {0: int(told)}, {0: int(count.sum(dtype=np.int64))}
    found = np.arange(int(codes.max()) + 1) if int(codes.max()) < _TABLE else np.unique(codes)
    codes = codes if len(found) and int(found[-1]) < _TABLE else np.searchsorted(found, codes)
    objects = np.bincount(codes, count, len(found)).astype(np.int64)
    if per_sentence:  # of a record several groups may be told, and one of them twice
        pairs = np.sort(record.astype(np.int64) * len(found) + codes, kind="stable")
        codes = pairs[np.diff(pairs, prepend=-1) != 0] % len(found)
    elif whole:
        codes = codes[loaded.starts]
    else:
        codes = codes[np.diff(record, prepend=-1) != 0]
    narrations = np.bincount(codes, minlength=len(found))
    kept = np.flatnonzero(narrations)
    return (
        dict(zip(found[kept].tolist(), narrations[kept].tolist(), strict=True)),
        dict(zip(found[kept].tolist(), objects[kept].tolist(), strict=True)),
    )


def _coded(
    selection: Selection, loaded: Loaded, rows: Rows, grouping: str
) -> tuple[Codes, Callable[[int], str]]:
    """A number per sentence, and the label of a number."""
    connection = selection.connection
    if grouping == "camera":
        names = dict(connection.execute("SELECT id, name FROM cameras").fetchall())
        return loaded.sentences.camera[rows].astype(np.int64), names.__getitem__
    if grouping in _OF_SENTENCES:
        sql = f"SELECT DISTINCT {grouping} FROM phrases ORDER BY 1"  # noqa: S608 - one of three names
        labels = [label for (label,) in connection.execute(sql)]
        places = {label: n for n, label in enumerate(labels)}
        numbers = connection.execute(f"SELECT id, {grouping} FROM phrases").fetchall()  # noqa: S608
        table = np.zeros(max((number for number, _ in numbers), default=0) + 1, np.int64)
        table[[number for number, _ in numbers]] = [places[label] for _, label in numbers]
        return table[loaded.sentences.phrase[rows]], lambda number: labels[number] or "-"
    code, labeller = _TIMES[grouping]
    return selection.local.by_quarter(loaded.quarter[rows], code), labeller


def _moment(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _months(seconds: NDArray[np.int64]) -> Codes:
    return seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)


def _week_label(number: int) -> str:
    return f"{_moment((number * 7 - 3) * DAY_S):%G-W%V}"


_OF_SENTENCES = ("object", "kind", "colour")
_TIMES: dict[str, tuple[Callable[[NDArray[np.int64]], Codes], Callable[[int], str]]] = {
    "hour": (lambda s: s // 3600, lambda n: f"{_moment(n * 3600):%Y-%m-%d %H:00}"),
    "day": (lambda s: s // DAY_S, lambda n: f"{_moment(n * DAY_S):%Y-%m-%d}"),
    "week": (lambda s: (s // DAY_S + 3) // 7, _week_label),  # 1970 began on a Thursday
    "month": (_months, lambda n: f"{1970 + n // 12}-{n % 12 + 1:02d}"),
    "weekday": (lambda s: (s // DAY_S + 3) % 7, lambda n: DAY_NAMES[n].capitalize()),
    "hour-of-day": (lambda s: s % DAY_S // 3600, lambda n: f"{n:02d}:00"),
}
