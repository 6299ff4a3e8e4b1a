"""The thread that searches the journals, and passes new records to listeners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TypeVar

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Measure, Question
from daemon.search.results import SearchResult
from daemon.search.search import Search

MOST_LISTENERS = 64

_REFRESH_S = 0.5
_MOST_NEWS = 200
"""Records of one update that listeners get; a page has the rest."""
_WAITING = 500

Answer = TypeVar("Answer")
News = asyncio.Queue[SearchResult | None]

logger = logging.getLogger(__name__)


class SearchThread:
    """Questions from the event loop to a `Search`, which lives in a thread of its own.

    Attributes:
        latest: by camera its newest record with pictures, else its newest; also of removed cameras.
        left_out: files that are not read, with the reason.
        listeners: queues of new records; a None ends them.
    """

    def __init__(self, folder: Path, local: LocalTime) -> None:
        self.folder, self.local = folder, local
        self.latest: dict[str, SearchResult] = {}
        self.left_out: dict[str, str] = {}
        self.listeners: set[News] = set()
        self._thread = ThreadPoolExecutor(1, "search")
        self._search: Search | None = None
        self._refreshed = -_REFRESH_S
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the index and catch up with the journals, however long that takes.

        Raises:
            SearchError: the folder cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(self._thread, self._open)

    async def close(self) -> None:
        """End all listeners and close the index."""
        self.dismiss()
        if self._search:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._search.index.close)
        self._thread.shutdown()

    async def ask(self, question: Callable[[Search], Answer]) -> Answer:
        """Run `question` in the thread, after the journals were caught up with."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def listen(self) -> News | None:
        """A queue of records from now on; None where too many listen. A full one is closed with None."""
        if len(self.listeners) >= MOST_LISTENERS:
            return None
        queue: News = asyncio.Queue(_WAITING)
        self.listeners.add(queue)
        return queue

    def dismiss(self) -> None:
        """End all listeners."""
        for queue in self.listeners.copy():
            self._end(queue)

    def _open(self) -> None:
        self._search = search = Search(self.folder, self.local)
        self.left_out = search.index.update().left_out
        warnings = [f"{self.folder / name} is left out: {reason}" for name, reason in self.left_out.items()]
        for warning in [*warnings, *(f"does not verify: {fault}" for fault in search.index.faults())]:
            logger.warning("%s", warning)
        self._read_latest(search)
        self._refreshed = monotonic()

    def _answer(self, question: Callable[[Search], Answer]) -> Answer:
        search = self._search
        if search is None:
            raise RuntimeError("the search thread has not been started")
        if monotonic() - self._refreshed >= _REFRESH_S:
            self._refresh(search)
        return question(search)

    def _refresh(self, search: Search) -> None:
        update = search.index.update()
        self.left_out = update.left_out
        if update.records:
            if update.records > _MOST_NEWS:
                self._read_latest(search)
            fresh = list(search.new(Question(), update))[-_MOST_NEWS:]
            self._remember(fresh)
            if self._loop:
                self._loop.call_soon_threadsafe(self._spread, fresh)
        self._refreshed = monotonic()

    def _read_latest(self, search: Search) -> None:
        for camera in search.selection.cameras():
            question = Question(Filters(cameras=(camera,)), measure=Measure(limit=20))
            self._remember(search.answer(question).results)

    def _remember(self, results: Iterable[SearchResult]) -> None:
        for result in results:
            known = self.latest.get(result.record.camera)
            if known is None or result.pictures or not known.pictures:
                self.latest[result.record.camera] = result

    def _spread(self, fresh: list[SearchResult]) -> None:
        for queue in self.listeners.copy():
            if queue.qsize() + len(fresh) > _WAITING:
                self._end(queue)
                continue
            for result in fresh:
                queue.put_nowait(result)

    def _end(self, queue: News) -> None:
        self.listeners.discard(queue)
        while queue.full():
            queue.get_nowait()
        queue.put_nowait(None)
