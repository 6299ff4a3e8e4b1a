"""The thread that searches the journals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, time_ns
from typing import TypeVar

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Measure, Question
from daemon.search.results import SearchResult
from daemon.search.search import Search

_REFRESH_S = 0.5

Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)


class SearchThread:
    """Questions from the event loop to a `Search`, which lives in a thread of its own.

    Attributes:
        latest: by camera its newest record with pictures, else its newest; also of removed cameras.
        left_out: files that are not read, with the reason.
        version: another one after each change of the journals, also over restarts.
        answered: number of questions so far.
    """

    def __init__(self, folder: Path, local: LocalTime) -> None:
        self.folder, self.local = folder, local
        self.latest: dict[str, SearchResult] = {}
        self.left_out: dict[str, str] = {}
        self.version, self.answered = time_ns(), 0
        self._thread = ThreadPoolExecutor(1, "search")
        self._search: Search | None = None
        self._refreshed = 0.0

    async def start(self) -> None:
        """Open the index and catch up with the journals, however long that takes.

        Raises:
            SearchError: the folder cannot be read.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    async def close(self) -> None:
        """Close the index."""
        if self._search:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._search.index.close)
        self._thread.shutdown()

    async def ask(self, question: Callable[[Search], Answer]) -> Answer:
        """Run `question` in the thread, after the journals were caught up with."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def _open(self) -> None:
        self._search = search = Search(self.folder, self.local)
        self.left_out = search.index.update().left_out
        warnings = [f"{self.folder / name} is left out: {reason}" for name, reason in self.left_out.items()]
        for warning in [*warnings, *(f"does not verify: {fault}" for fault in search.index.faults())]:
            logger.warning("%s", warning)
        for camera in search.selection.cameras():
            question = Question(Filters(cameras=(camera,)), measure=Measure(limit=20))
            self._remember(search.answer(question).results)
        self._refreshed = monotonic()

    def _answer(self, question: Callable[[Search], Answer]) -> Answer:
        search = self._search
        if search is None:
            raise RuntimeError("the search thread has not been started")
        if monotonic() - self._refreshed >= _REFRESH_S:
            update = search.index.update()
            self.left_out = update.left_out
            if update.records:
                self.version = time_ns()
                self._remember(search.new(Question(), update))
            self._refreshed = monotonic()
        try:
            return question(search)
        finally:
            self.answered += 1

    def _remember(self, results: Iterable[SearchResult]) -> None:
        for result in results:
            known = self.latest.get(result.record.camera)
            if known is None or result.pictures or not known.pictures:
                self.latest[result.record.camera] = result
