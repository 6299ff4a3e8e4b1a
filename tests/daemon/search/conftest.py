"""Real journals, and what finds things in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from houses import MIDNIGHT, House

from daemon.questions.question import Filters, LocalTime, Measure, Question, Span
from daemon.search.search import Search
from models.captioner import Sentence
from pipeline.journal import SegmentLimits

EVERYTHING, ALWAYS = Filters(), Span()
SMALL = SegmentLimits(bytes=4000)
"""Four or five records."""


def said(
    text: str, kind: str = "appeared", thing: str = "car", confidence: float = 0.8, count: int = 1
) -> Sentence:
    return Sentence(text, kind, thing, (0.4, 0.2, 0.1, 0.5), 0.7, confidence, count=count)


def seconds(text: str) -> float:
    """Of a UTC time after `MIDNIGHT`."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - MIDNIGHT) / timedelta(seconds=1)


@contextmanager
def searching(folder: Path, zone: str = "UTC") -> Iterator[Search]:
    """A search that has looked into the journals."""
    with Search(folder, LocalTime.named(zone)) as search:
        search.update()
        yield search


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "state", limits=SMALL)
    yield made
    made.close()


@pytest.fixture
def ask(house: House) -> Callable[..., list[str]]:
    """Gives the texts that are found."""

    def asked(
        filters: Filters = EVERYTHING, span: Span = ALWAYS, zone: str = "UTC", **measure: Any
    ) -> list[str]:
        with searching(house.folder, zone) as search:
            found = search.answer(Question(filters, span, Measure(**measure))).results
            return [each.record.text for each in found]

    return asked
