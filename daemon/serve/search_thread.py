"""The one thread that asks the journals, and tells whoever listens what is new in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TypeVar

from daemon.questions.local_time import LocalTime
from daemon.questions.question import Filters, Question
from daemon.search.found import FoundRecord
from daemon.search.search import Search

_LOOK_EVERY_S = 0.5
_MOST_NEWS = 200
"""Of one look that listeners are told; who asks finds the rest."""
_WAITING = 500

Answer = TypeVar("Answer")
News = asyncio.Queue[FoundRecord | None]

logger = logging.getLogger(__name__)


class SearchThread:
    """Questions from the event loop to a `Search`, which lives in a thread of its own.

    Attributes:
        reading: records read so far while the index is built, None once it is there.
        latest: by camera its newest record, also of cameras that were removed; written by the thread.
        left_out: files that are not read, with the reason; likewise.
    """

    def __init__(self, folder: Path, local: LocalTime, evidence: Path | None = None) -> None:
        self.folder, self.local = folder, local
        self.reading: int | None = 0
        self.latest: dict[str, FoundRecord] = {}
        self.left_out: dict[str, str] = {}
        self._evidence = evidence
        self._thread = ThreadPoolExecutor(1, "search")
        self._search: Search | None = None
        self._looked = -_LOOK_EVERY_S
        self._listeners: set[News] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the index and catch up with the journals, however long that takes; `reading` tells how far.

        Raises:
            SearchError: the folder cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(self._thread, self._open)
        self.reading = None

    async def close(self) -> None:
        """Let the index go; listeners are told None."""
        self.dismiss()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def ask(self, question: Callable[[Search], Answer]) -> Answer:
        """What `question` finds; it runs in the thread, after the journals were caught up with."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._asked, question)

    def listen(self) -> News:
        """A queue of what comes from now on; one that nobody empties is closed with None."""
        queue: News = asyncio.Queue(_WAITING)
        self._listeners.add(queue)
        return queue

    def leave(self, queue: News) -> None:
        """Nobody listens there any more."""
        self._listeners.discard(queue)

    def dismiss(self) -> None:
        """All listeners are told that nothing more comes."""
        for queue in self._listeners.copy():
            self._end(queue)

    @property
    def listening(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def _asked(self, question: Callable[[Search], Answer]) -> Answer:
        search = self._opened()
        if monotonic() - self._looked >= _LOOK_EVERY_S:
            self._look(search)
        answer = question(search)
        if search.reread():
            logger.warning("a journal was changed since it was read; it is read again")
        return answer

    def _opened(self) -> Search:
        if self._search is None:
            raise RuntimeError("the search thread has not been started")
        return self._search

    def _open(self) -> None:
        self._search = search = Search(self.folder, self.local, self._evidence, self._told)
        self.left_out = search.look().left_out
        for name, reason in self.left_out.items():
            logger.warning("%s is left out: %s", self.folder / name, reason)
        if search.said:
            logger.warning("%s", search.said)
        for fault in search.faults():
            logger.warning("does not verify: %s", fault)
        self._remember(search, search.selection.cameras())
        self._looked = monotonic()

    def _told(self, records: int) -> None:
        if self.reading is not None:
            self.reading = records

    def _close(self) -> None:
        if self._search:
            self._search.index.close()

    def _look(self, search: Search) -> None:
        look = search.look()
        self.left_out = look.left_out
        if look.fresh:
            if look.records > _MOST_NEWS:
                self._remember(search, search.selection.cameras())
            fresh = list(search.new(Question(), look.fresh))[-_MOST_NEWS:]
            for found in fresh:
                self.latest[found.record.camera] = found
            if self._loop and self._listeners:
                self._loop.call_soon_threadsafe(self._spread, fresh)
        self._looked = monotonic()

    def _remember(self, search: Search, cameras: list[str]) -> None:
        for camera in cameras:
            for found in search.answer(Question(Filters(cameras=(camera,)), "last")).found:
                self.latest[camera] = found

    def _spread(self, fresh: list[FoundRecord]) -> None:
        for queue in self._listeners.copy():
            try:
                for found in fresh:
                    queue.put_nowait(found)
            except asyncio.QueueFull:
                self._end(queue)

    def _end(self, queue: News) -> None:
        self.leave(queue)
        while queue.full():
            queue.get_nowait()
        queue.put_nowait(None)
