"""Real journals, and what finds things in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from narrations import narration

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Measure, Question, Span
from daemon.search.search import Search
from models.captioner import Sentence
from pipeline.journal import Journal, SegmentLimits

EVERYTHING, ALWAYS = Filters(), Span()
SMALL = SegmentLimits(bytes=4000)
"""Four or five records."""
MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)
"""From which `narrations.narration` counts its seconds."""


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
        search.index.update()
        yield search


@dataclass
class House:
    """A state folder with journals.

    Attributes:
        folder: of the journals.
    """

    state: Path
    journals: dict[str, Journal] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.state / "journal"

    def tell(self, second: float, *sentences: Sentence, camera: str = "yard", **changed: Any) -> None:
        if camera not in self.journals:
            self.journals[camera] = Journal(self.folder, camera, fsync=False, limits=SMALL)
        told = {"sentences": sentences} if sentences else {}
        evidence = changed.pop("evidence", None)
        self.journals[camera].append(narration(second, camera, **told, **changed), evidence=evidence)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "state")
    yield made
    for journal in made.journals.values():
        journal.close()


@pytest.fixture
def ask(house: House) -> Iterator[Callable[..., list[str]]]:
    """Opens the index at the first question; gives the texts that are found."""
    opened: list[Search] = []

    def asked(
        filters: Filters = EVERYTHING, span: Span = ALWAYS, zone: str = "UTC", **measure: Any
    ) -> list[str]:
        search = Search(house.folder, LocalTime.named(zone))
        opened.append(search)
        search.index.update()
        return [
            found.record.text for found in search.answer(Question(filters, span, Measure(**measure))).results
        ]

    yield asked
    for search in opened:
        search.index.close()
