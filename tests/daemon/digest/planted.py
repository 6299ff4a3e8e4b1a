"""A made record of 28 days on three cameras, with unusual events planted in its last two weeks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests.daemon.questions.made_record import BERLIN, Further, write_record

FIRST = date(2026, 10, 5)
"""A Monday; clocks go back on the 25th."""
DAYS = 28
PLANTED_FROM = 14

WEEKDAY = {
    ("door", "person"): {**dict.fromkeys(range(9, 17), 10), 6: 3, 7: 3, 8: 25, 17: 20, 18: 3, 19: 3, 20: 1},
    ("yard", "car"): dict.fromkeys(range(6, 20), 6),
    ("hall", "person"): dict.fromkeys(range(8, 18), 15),
    ("yard", "dog"): dict.fromkeys(range(7, 21), 0.05),
}
WEEKEND = {
    ("door", "person"): dict.fromkeys(range(9, 17), 2),
    ("yard", "car"): dict.fromkeys(range(8, 18), 1),
    ("yard", "dog"): dict.fromkeys(range(7, 21), 0.05),
}
"""Visits an hour."""
BUSY = ("rush", "absence")
"""Kinds that are planted on weekdays."""
STAY_S = {"person": 40.0, "car": 600.0, "dog": 30.0}


@dataclass(frozen=True)
class Visit:
    camera: str
    thing: str
    begin: datetime
    stay_s: float


@dataclass(frozen=True)
class Planted:
    """An unusual event: its kind, camera, day and hours."""

    kind: str
    camera: str
    day: date
    hours: tuple[int, ...]
    thing: str


def made(seed: int, events: int = 40) -> tuple[list[Visit], list[Planted]]:
    """The visits, and what was planted in them; the same for the same seed."""
    rng = random.Random(seed)
    visits = [visit for n in range(DAYS) for visit in _ordinary(rng, FIRST + timedelta(days=n))]
    kinds = ["night"] * 12 + ["rush"] * 7 + ["absence"] * 7 + ["stay"] * 7 + ["never"] * 7
    planted, taken = list[Planted](), set[tuple[str, str, date]]()
    strangers = iter(("horse", "bus", "animal", "bicycle", "cat", "bird", "suitcase"))
    for kind in kinds[:events]:
        camera = {"rush": "door", "absence": "hall", "stay": "yard"}.get(kind) or rng.choice(("door", "hall"))
        days = [FIRST + timedelta(days=n) for n in range(PLANTED_FROM, DAYS)]
        free = [d for d in days if (kind, camera, d) not in taken and (kind not in BUSY or d.weekday() < 5)]
        day = rng.choice(free)
        taken.add((kind, camera, day))
        planted.append(_plant(rng, visits, kind, camera, day, strangers))
    return visits, planted


def _plant(
    rng: random.Random, visits: list[Visit], kind: str, camera: str, day: date, strangers: Iterator[str]
) -> Planted:
    if kind == "stay":
        visits.append(Visit(camera, "car", _moment(day, 8, rng.random()), rng.uniform(7, 9) * 3600))
        return Planted(kind, camera, day, (8,), "car")
    hour = rng.randrange(*{"night": (0, 5), "rush": (9, 17), "absence": (9, 15), "never": (10, 16)}[kind])
    if kind == "absence":
        hours = {(day, hour), (day, hour + 1)}
        visits[:] = [v for v in visits if not (v.camera == camera and _clock(v) in hours)]
        return Planted(kind, camera, day, (hour, hour + 1), "person")
    thing = next(strangers) if kind == "never" else "person"
    count = rng.randint(1, 3) if kind == "night" else 45 if kind == "rush" else 1
    visits += [_visit(rng, camera, thing, day, hour) for _ in range(count)]
    return Planted(kind, camera, day, (hour,), thing)


def _ordinary(rng: random.Random, day: date) -> Iterator[Visit]:
    rates = WEEKEND if day.weekday() >= 5 else WEEKDAY
    busy = rng.uniform(0.8, 1.2)
    for (camera, thing), hours in rates.items():
        for hour, rate in hours.items():
            for _ in range(_poisson(rng, rate * busy)):
                yield _visit(rng, camera, thing, day, hour)


def _visit(rng: random.Random, camera: str, thing: str, day: date, hour: int) -> Visit:
    stay_s = min(3600.0, STAY_S.get(thing, 60.0) * math.exp(rng.gauss(0, 0.5)))
    return Visit(camera, thing, _moment(day, hour, rng.random()), stay_s)


def _moment(day: date, hour: int, share: float) -> datetime:
    begin = datetime(day.year, day.month, day.day, hour, tzinfo=BERLIN).astimezone(UTC)
    return begin + timedelta(seconds=int(3600 * share))


def _clock(visit: Visit) -> tuple[date, int]:
    local = visit.begin.astimezone(BERLIN)
    return local.date(), local.hour


def _poisson(rng: random.Random, mean: float) -> int:
    count, product = 0, rng.random()
    while product > math.exp(-mean):
        count, product = count + 1, product * rng.random()
    return count


def write(folder: Path, visits: Iterable[Visit], more: Iterable[Further] = ()) -> None:
    """The journals: an arrival and a departure a visit, and further records."""
    rows = (
        f"{each.camera} | t{n} | {each.thing} | {each.begin.isoformat()} | "
        f"{(each.begin + timedelta(seconds=each.stay_s)).isoformat()} | {each.thing} | in the middle"
        for n, each in enumerate(visits)
    )
    write_record(folder, "\n".join(rows), others=False, more=more)
