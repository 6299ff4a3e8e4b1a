"""What is followed through the frames between is told the same, however the pairs come to the captioner."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MethodType
from typing import Any

import cv2
import numpy as np
import pytest
from rectangles import COLOURS, GREY, see_rectangles

from daemon.config.plan import CameraPlan
from daemon.threads.captions import Captioning, Manner
from daemon.threads.narrator import Narrator
from daemon.threads.pair_queue import Proposed
from models import load_captioner
from models.captioner import Captioner
from models.grounded.grounded import Grounded
from pipeline.following import Follower
from pipeline.journal import Journal
from pipeline.narration.narration import Narration
from pipeline.pairs import FramePair, candidate_pairs
from pipeline.sources import Clock, Frame
from pipeline.thresholds import PairThresholds

START = datetime(2024, 3, 1, tzinfo=UTC)
SIZE = (240, 320)
VIEWS = (40.0, 44.0)
"""Seconds between which the camera shows another view."""


class Drawn:
    def __init__(self, image: np.ndarray) -> None:
        self._image = image

    def rgb(self) -> np.ndarray:
        return self._image


def frame(t: float, *, turned: bool) -> Frame:
    """A parked car; one walks through from the left, and later one comes from the right and stays."""
    image = np.full((*SIZE, 3), GREY, np.uint8)
    things = [("car", 200, 40, 60, 40)]
    if 6 <= t < 20:
        things.append(("person", round(-10 + 24 * (t - 6)), 120, 24, 70))
    if t >= 26:
        things.append(("person", max(round(310 - 30 * (t - 26)), 220), 130, 24, 70))
    for name, x, y, w, h in things:
        cv2.rectangle(image, (x, y), (x + w - 1, y + h - 1), COLOURS[name], -1)
    if turned and VIEWS[0] <= t < VIEWS[1]:
        image = np.ascontiguousarray(np.random.default_rng(3).integers(0, 255, image.shape, np.uint8))
    luma = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    return Frame("yard", START + timedelta(seconds=t), Clock.FILE, round(10 * t), luma, Drawn(image))


def pairs_of(*, turned: bool) -> list[FramePair]:
    film = (frame(t / 2, turned=turned) for t in range(100))
    return list(candidate_pairs(film, PairThresholds(4.0, 60.0)))


@pytest.fixture(scope="module")
def sighted() -> Grounded:
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    return see_rectangles(captioner)


def failing(captioner: Grounded, at: Sequence[int], method: str) -> Grounded:
    """A copy that fails at these calls of a method, counted from 0."""
    one, calls = copy.deepcopy(captioner), iter(range(10_000))
    whole: Any = getattr(type(one), method)

    def call(self: Grounded, *arguments: Any) -> Any:
        if next(calls) in at:
            raise MemoryError("out of memory")
        return whole(self, *arguments)

    setattr(one, method, MethodType(call, one))
    return one


def told(captioner: Captioner, pairs: Sequence[FramePair], batch: int) -> list[Narration | None]:
    plan, captioning, follower = CameraPlan("yard", ""), Captioning(captioner), {"yard": Follower()}
    narrations: list[Narration | None] = []
    for k in range(0, len(pairs), batch):
        proposed = [Proposed(pair) for pair in pairs[k : k + batch]]
        narrations += captioning.narrate(proposed, Manner.of(plan, captioner), follower)
    return narrations


def events(narrations: Sequence[Narration | None]) -> list[tuple[str, str]]:
    return [(s.type, s.object) for n in narrations if n for s in n.sentences]


@pytest.fixture(scope="module", params=[False, True], ids=["one view", "two views"])
def pairs(request: pytest.FixtureRequest) -> list[FramePair]:
    return pairs_of(turned=request.param)


@pytest.fixture(scope="module")
def singly(sighted: Grounded, pairs: list[FramePair]) -> list[Narration | None]:
    return told(sighted, pairs, 1)


def test_one_who_crosses_is_told_when_he_comes_and_when_he_leaves(
    pairs: list[FramePair], singly: list[Narration | None]
) -> None:
    assert events(singly)[:3] == [("appeared", "person"), ("disappeared", "person"), ("appeared", "person")]
    assert all(s.paths for n in singly if n for s in n.sentences if s.object == "person")


@pytest.mark.parametrize("batch", [3, 100])
def test_a_batch_tells_what_its_pairs_tell_one_by_one(
    sighted: Grounded, pairs: list[FramePair], singly: list[Narration | None], batch: int
) -> None:
    assert told(sighted, pairs, batch) == singly


@pytest.mark.parametrize("call", [0, 2])
@pytest.mark.parametrize("method", ["see", "tell"])
def test_after_an_error_nothing_is_lost_and_nothing_told_twice(
    sighted: Grounded, pairs: list[FramePair], singly: list[Narration | None], method: str, call: int
) -> None:
    """A batch that fails in the middle is asked for again in halves."""
    assert told(failing(sighted, [call], method), pairs, len(pairs)) == singly


def test_the_narrator_journals_all_that_the_tracks_tell(
    sighted: Grounded, pairs: list[FramePair], singly: list[Narration | None], tmp_path: Path
) -> None:
    with Journal(tmp_path, "yard") as journal:
        narrator = Narrator(sighted, [CameraPlan("yard", "")], {"yard": journal}, live=False)
        written = [*narrator.tell([Proposed(pair) for pair in pairs]), *narrator.finish()]
    texts = [s.text for n in singly if n for s in n.sentences]
    assert [s.text for one in written for s in one.record.sentences] == texts
    assert not narrator.untold("yard")
