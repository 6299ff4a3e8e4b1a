"""A rule fires on the same records live and tried on the past, whatever ended the process in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from rectangles import COLOURS, GREY, see_rectangles

from daemon.config.plan import CameraPlan
from daemon.config.settings import EvidenceSettings, FilterSettings
from daemon.forward.target import Filter
from daemon.questions.asker import Asker
from daemon.questions.question import Filters, LocalTime, Question, Span, moment_of
from daemon.rules.rule import Rule, read_rule
from daemon.rules.watch import RuleBook
from daemon.search.search import Search
from daemon.search.trial import records_of, try_rule
from daemon.threads.camera_narrator import EvidenceKeeper
from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import Work
from models.captioner import Captioner, DescribeOptions
from models.language.places import Line, Zone
from pipeline.camera_state import CAMERA_MEMORY
from pipeline.evidence import EvidenceStore
from pipeline.gate import watch
from pipeline.journal import Journal, read_journal
from pipeline.journal.verification import verify
from pipeline.limits import LimitOptions
from pipeline.narration.narration import Narration
from pipeline.record import Record, read_record
from pipeline.record_format import format_time
from pipeline.sources import Clock, Frame
from pipeline.sources.frame import LazyPicture
from pipeline.thresholds import PairThresholds

START = datetime(2026, 5, 14, 12, tzinfo=UTC)
LOCAL = LocalTime.named("UTC")
SIZE = 200, 150
PLAN = CameraPlan(
    "yard",
    "rtsp://10.0.0.5/",
    describe=DescribeOptions(
        zones=(Zone("in the lot", ((0.3, 0), (1, 0), (1, 1), (0.3, 1))),),
        lines=(Line("the gate line", ((0.3, 1), (0.3, 0)), ("into the yard", "to the street")),),
    ),
    limits=LimitOptions(cooldown_s=20.0, max_per_hour=8, per_minute=3),
)
WHEN = (
    "a car stands in the lot longer than 60 seconds",
    "more than 1 car in the lot",
    "at least 2 cars in the lot for 20 seconds",
    "no car in the lot for 40 seconds",
    "no car for 40 seconds between 12:02 and 12:06",
    "a car comes",
    "a car leaves",
    "a car crosses the gate line into the yard",
    "a car comes and the car is still there after 50 seconds",
    "a car comes and then a car leaves within 50 seconds",
    "a car comes and no car leaves within 50 seconds",
)

Visit = tuple[float, float, float, tuple[int, int, int]]
"""Seconds from when to when something is there, how far down, and its colour."""


class Killed(BaseException):
    """The process ends as by kill -9."""


def visits(seed: int) -> list[Visit]:
    """Four cars in two lanes."""
    rng, found = Random(seed), list[Visit]()
    for lane in range(2):
        at = rng.uniform(5, 60)
        for _ in range(2):
            end = at + rng.choice((15, 45, 70, 130))
            found.append((at, end, 10 + 45 * lane, COLOURS["car"]))
            at = end + rng.uniform(20, 90)
    return found


def picture(second: float, there: Iterable[Visit]) -> np.ndarray:
    """Each comes in from the left within four seconds, stands in the middle, and goes back the same way."""
    image = np.full((SIZE[1], SIZE[0], 3), GREY, np.uint8)
    for begin, end, top, colour in there:
        if begin <= second < end + 4:
            x = int(min(second - begin, end + 4 - second, 4) * 30) - 30
            image[int(top) : int(top) + 25, max(x, 0) : max(x + 36, 0)] = colour
    return image


def film(there: list[Visit]) -> Iterator[Frame]:
    """Five frames a second while something moves, and one every other second."""
    turns = [turn for begin, end, *_ in there for turn in (begin, end)]
    second = 0.0
    while second < max(turns) + 120:
        image = picture(second, there)
        time = START + timedelta(seconds=second)
        luma = np.ascontiguousarray(image[..., 0])
        yield Frame("yard", time, Clock.RECEIVE, int(1000 * second), luma, LazyPicture(lambda i=image: i))
        second += 0.2 if any(-4 <= second - turn <= 9 for turn in turns) else 2.0


def rules() -> tuple[Rule, ...]:
    places = ("lot", "gate line", "gate line into the yard")
    asker = Asker(("yard",), frozenset(), LOCAL, places.__contains__)
    cool = {"a car leaves": 45.0}
    return tuple(read_rule(each, each, asker, cooldown_s=cool.get(each, 0.0)) for each in WHEN)


def run(
    captioner: Captioner,
    state: Path,
    parts: Iterable[list[Frame]],
    ends: Callable[[Narration], bool] = lambda _: False,
) -> None:
    """Narrate parts of a film, each by a process of its own that is killed where `ends` says so."""
    for part in parts:
        with Journal(state / "journal", "yard", fsync=False) as journal:
            append = journal.append

            def write(narration: Narration, append: Callable[..., Record] = append, **more: object) -> Record:
                if ends(narration):
                    raise Killed
                return append(narration, **more)

            journal.append = write  # type: ignore[method-assign, assignment]
            narrator = Narrator(captioner, [PLAN], {"yard": journal}, live=True, memory=state / CAMERA_MEMORY)
            try:
                narrator.set_rules("yard", rules(), LOCAL)
                for item in watch(iter(part), PairThresholds(), tracked=True, live=True):
                    narrator.process([Work(item, since=0.0)])
            except Killed:
                continue


def fired(state: Path) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Time and records of each rule that fired, by its name, as they stand in the journal."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {when: [] for when in WHEN}
    for record in read_journal(state / "journal" / "yard.jsonl"):
        if record.rule:
            found[record.rule.name].append((record.sentences[0].time or "", record.rule.records))
    return {name: sorted(each) for name, each in found.items()}


def tried(state: Path, since: datetime | None = None) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Likewise, tried on the same journal afterwards."""
    found = {}
    with Search(state / "journal", LOCAL) as search:
        search.index.update()
        for rule in rules():
            would = try_rule(search, rule, Span(since=since), START + timedelta(days=1))
            found[rule.name] = sorted(
                (format_time(moment_of(each.at)), tuple(record.id for record in records))
                for (_, each), records in zip(would, records_of(search, would), strict=True)
            )
    return found


@pytest.fixture(scope="module")
def narrated_state(seeing: Captioner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder after a film that one process has narrated."""
    state = tmp_path_factory.mktemp("narrated_state")
    run(seeing, state, [list(film(visits(1)))])
    return state


def test_live_and_past_fire_on_the_same_records(narrated_state: Path) -> None:
    live = fired(narrated_state)
    assert live == tried(narrated_state)
    assert [when for when in WHEN if not live[when]] == []  # of every form
    assert verify([narrated_state / "journal"]).ok


def test_restarts_and_kills_change_nothing(seeing: Captioner, tmp_path: Path) -> None:
    frames, kills = list(film(visits(3))), Random(3)
    cuts = sorted(kills.sample(range(len(frames)), 4))
    parts = [frames[a:b] for a, b in pairwise([0, *cuts, len(frames)])]
    killed: list[Narration] = []

    def ends(narration: Narration) -> bool:
        if narration.rule and len(killed) < 3 and kills.random() < 0.3:
            killed.append(narration)
            return True
        return False

    run(seeing, tmp_path, [*parts, frames[-1:]], ends)
    assert killed
    live = fired(tmp_path)
    assert any(live.values())
    assert live == tried(tmp_path)


def test_what_a_kill_left_out_is_written_at_the_start(
    seeing: Captioner, narrated_state: Path, tmp_path: Path
) -> None:
    lines = (narrated_state / "journal" / "yard.jsonl").read_bytes().splitlines(keepends=True)
    met = next(n for n, line in enumerate(lines) if read_record(line).rule)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "yard.jsonl").write_bytes(b"".join(lines[:met]))
    run(seeing, tmp_path, [[]])
    path = tmp_path / "journal" / "yard.jsonl"
    assert [record.id for record in read_journal(path)][met:] == [read_record(lines[met]).id]
    path.write_bytes(next(line for line in lines if not read_record(line).rule))
    with Journal(path.parent, "yard", fsync=False) as journal:  # of another configuration: they are new
        other = Narrator(seeing, [PLAN], {"yard": journal}, live=True)
        other.set_rules("yard", rules()[:-1], LOCAL)
        assert other.finish() == []


def test_a_rule_has_the_pictures_and_the_settings_of_its_record(narrated_state: Path) -> None:
    records = list(read_journal(narrated_state / "journal" / "yard.jsonl"))
    (settings,) = {record.config_sha256 for record in records}
    plan = PLAN.settings_sha256(see_rectangles(), limits=True)
    assert settings != plan  # rules are among them
    rule = next(record for record in records if record.rule)
    assert rule.event == "rule"
    assert rule.held is None
    assert [s.type for s in rule.sentences] == ["none"]
    assert Filter(FilterSettings(kind=("rule",), object=("car",))).select(rule) == rule.sentences
    with Search(narrated_state / "journal", LOCAL) as search:
        search.index.update()
        found = search.answer(Question(Filters(kinds=("rule",), text='"a car comes"'))).results
        assert rule.id in [each.record.id for each in found]


def test_a_rule_has_pictures_though_a_limit_keeps_its_record_from_having_any(
    seeing: Captioner, tmp_path: Path
) -> None:
    plan = replace(PLAN, limits=LimitOptions(max_per_hour=0), evidence=EvidenceSettings())
    with Journal(tmp_path / "journal", "yard", fsync=False) as journal:
        keeper = EvidenceKeeper(EvidenceStore(tmp_path / "evidence"))
        narrator = Narrator(seeing, [plan], {"yard": journal}, live=True, evidence=keeper)
        narrator.set_rules("yard", rules(), LOCAL)
        for item in watch(film(visits(1)), PairThresholds(), tracked=True, live=True):
            narrator.process([Work(item, since=0.0)])
    records = {each.id: each for each in read_journal(tmp_path / "journal" / "yard.jsonl")}
    met = [each for each in records.values() if each.rule and each.rule.name == "a car comes"]
    assert met
    assert all(each.evidence for each in met)
    assert {records[each.rule.records[0]].held for each in met if each.rule} == {"hourly"}
    assert not any(each.evidence for each in records.values() if each.held)
    assert verify([tmp_path / "journal"]).ok


def test_a_restart_is_no_way_around_a_cooldown(narrated_state: Path) -> None:
    records = list(read_journal(narrated_state / "journal" / "yard.jsonl"))
    first = next(n for n, each in enumerate(records) if each.rule and each.rule.name == "a car leaves") + 1
    (rule,) = (replace(each, cooldown_s=43_200.0) for each in rules() if each.name == "a car leaves")
    for known, fires in ((first, 0), (0, 1)):
        book = RuleBook([rule], LOCAL)
        book.recall(reversed(records[:known]), "")
        assert sum(len(book.take(each)) for each in records[known:]) == fires
