"""What is recorded of a gate that opens: once, with its own pictures, live as in a replay, over restarts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from sliding_gate import GATE, scene

from daemon.config.plan import CameraPlan
from daemon.questions.asker import Asker
from daemon.questions.question import LocalTime
from daemon.rules.rule import read_rule
from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import Work
from models.captioner import Captioner, DescribeOptions
from pipeline.camera_state import BEGUN, CAMERA_MEMORY
from pipeline.gate import watch
from pipeline.journal import Journal, read_journal
from pipeline.journal.verification import verify
from pipeline.limits import LimitOptions
from pipeline.record import Record
from pipeline.sources import Clock, Frame
from pipeline.sources.frame import LazyPicture
from pipeline.thresholds import PairThresholds

START = datetime(2026, 5, 14, 12, tzinfo=UTC)
LOCAL = LocalTime.named("UTC")
LIVE = CameraPlan(
    "yard",
    "rtsp://10.0.0.5/",
    describe=DescribeOptions(doors=(GATE,)),
    limits=LimitOptions(cooldown_s=60.0, max_per_hour=8, per_minute=3),
)
OPENS_S, CLOSES_S, MOVES_S, PASSES_S, END_S = 20, 54, 5, 80, 92
RULES = ("the gate opens", "the gate closes")


@pytest.fixture(scope="module")
def live(seeing, tmp_path_factory) -> list[Record]:
    """The records of a daemon that sees all of the film."""
    return narrated(seeing, tmp_path_factory.mktemp("live"), [film()])


def opened_share(second: float) -> float:
    return float(np.interp(second, (OPENS_S, OPENS_S + MOVES_S, CLOSES_S, CLOSES_S + MOVES_S), (0, 1, 1, 0)))


def film(begin_s: float = 0, end_s: float = END_S) -> Iterator[Frame]:
    """Five frames a second while the gate moves, and some seconds after; else one every other second."""
    second = begin_s
    while second < end_s:
        image = scene(opened_share(second)).copy()
        if PASSES_S < second < PASSES_S + 2:  # something in a corner
            image[200:230, int(40 * (second - PASSES_S)) : int(40 * (second - PASSES_S)) + 30] = 20
        luma, time = np.ascontiguousarray(image[..., 0]), START + timedelta(seconds=second)
        yield Frame("yard", time, Clock.RECEIVE, int(1000 * second), luma, LazyPicture(lambda i=image: i))
        near = any(-3 <= second - turn <= MOVES_S + 5 for turn in (OPENS_S, CLOSES_S, PASSES_S))
        second += 0.2 if near else 2.0


def narrated(
    captioner: Captioner,
    state: Path,
    parts: Iterable[Iterable[Frame]],
    plan: CameraPlan = LIVE,
    states: dict[str, bytes] = {},  # noqa: B006 - it is read
) -> list[Record]:
    """The records of parts of a film, each narrated by a process of its own, gaps left out."""
    live = plan is LIVE
    asker = Asker(("yard",), frozenset({"gate"}), LOCAL, lambda _: False)
    rules = tuple(read_rule(when, when, asker) for when in RULES)
    for part in parts:
        with Journal(state / "journal", "yard", fsync=False) as journal:
            memory = state / CAMERA_MEMORY if live else None
            narrator = Narrator(captioner, [plan], {"yard": journal}, live=live, memory=memory, states=states)
            narrator.set_rules("yard", rules, LOCAL)
            for item in watch(iter(part), PairThresholds(), tracked=True, live=live):
                narrator.process([Work(item, since=0.0)])
    assert verify([state / "journal"]).ok
    return [each for each in read_journal(state / "journal" / "yard.jsonl") if each.event != "gap"]


def texts(records: Iterable[Record]) -> list[str]:
    return [each.text.split(", after")[0] for each in records if each.event == "change"]


def second(time: str | None) -> float:
    assert time
    return (datetime.fromisoformat(time.removeprefix("before ")) - START).total_seconds()


def test_both_are_recorded_once_and_sent(live):
    opened, _, closed, _ = live
    assert opened.text == "The gate has opened."
    assert re.fullmatch(r"The gate has closed, after \d\d s\.", closed.text)
    assert not opened.held
    assert not closed.held, "it is not the kind that has just been sent"
    one, two = opened.sentences[0], closed.sentences[0]
    assert (one.action, one.object, one.type) == ("opened", "gate", "unknown")
    assert (two.action, two.object, two.type) == ("closed", "gate", "unknown")
    assert one.track == two.track
    assert one.box == one.box_before == one.box_after == pytest.approx(GATE.box)
    assert second(one.time) == second(two.since) == pytest.approx(OPENS_S, abs=2)
    assert second(two.time) == second(two.until) == pytest.approx(CLOSES_S, abs=2)
    assert two.duration_s == pytest.approx(second(two.until) - second(two.since))


def test_the_pictures_show_it_closed_and_open(live):
    opened, _, closed, _ = live
    stamps = (opened.before, opened.after, closed.before, closed.after)
    shares = [opened_share(second(each.time)) for each in stamps]
    assert shares == pytest.approx([0, 1, 1, 0], abs=0.4)
    assert shares[1] == 1
    assert shares[3] == 0


def test_rules_are_met_by_both(live):
    assert [each.rule.name for each in live if each.rule] == list(RULES)


def test_a_replay_tells_the_same(seeing, live, tmp_path):
    replayed = narrated(seeing, tmp_path, [film(0, OPENS_S + 14)], replace(LIVE, url="yard.mp4"))
    assert [each.sentences for each in replayed] == [each.sentences for each in live[:2]]


def test_a_replay_tells_the_same_as_a_daemon_that_began_with_what_was_learnt(seeing, tmp_path):
    part = OPENS_S + 14
    told = narrated(seeing, tmp_path, [film(0, part), film(part)])[2:]
    states = {"yard": (tmp_path / CAMERA_MEMORY / BEGUN / "yard.json").read_bytes()}
    footage = [film(part)], replace(LIVE, url="yard.mp4")
    again, anew = (
        narrated(seeing, tmp_path / name, *footage, states if name == "a" else {}) for name in "ab"
    )
    assert texts(again) == ["The gate has closed"]
    assert [(each.sentences, each.state_sha256) for each in again] == [
        (each.sentences, each.state_sha256) for each in told
    ]
    assert sha256(states["yard"]).hexdigest() == again[0].state_sha256
    assert [each.sentences for each in anew] != [each.sentences for each in told]


def test_what_changed_during_an_outage_has_no_time_of_its_own(seeing, tmp_path):
    told = narrated(seeing, tmp_path, [film(0, OPENS_S + 14), film(PASSES_S - 4)])
    assert texts(told) == ["The gate has opened.", "The gate is closed."]
    opened, closed = (each.sentences[0] for each in told if each.event == "change")
    assert closed.track == opened.track
    assert (closed.since or "").startswith("before ")
    assert closed.duration_s is None
