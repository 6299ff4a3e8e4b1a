"""All cameras of the daemon: threads that broke start again, and cameras come and go as configured."""

import logging
import math
from collections.abc import Iterable
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.threads.camera_thread import CameraThread
from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import WorkQueue
from pipeline.loop import Heartbeats
from pipeline.sources import Source, SourceError, open_source, redact

RESTART_S = 10.0  # after this a thread that a fault ended starts again; sources try again sooner
logger = logging.getLogger(__name__)


class Cameras:
    """The cameras that are watched, and their `threads`; only the main thread changes them."""

    def __init__(
        self, plans: Iterable[CameraPlan], queue: WorkQueue, heartbeats: Heartbeats | None = None
    ) -> None:
        self.failed: set[str] = set()  # those whose footage could not be read entirely
        self._queue, self._heartbeats = queue, heartbeats
        self._plans = {plan.name: plan for plan in plans}  # in force by the configuration
        self.threads = {name: self._thread(plan) for name, plan in self._plans.items()}
        self._ended = set[str]()  # their footage has
        self._due = dict[str, float]()  # monotonic seconds at which threads that a fault ended start again

    @property
    def over(self) -> bool:
        return self._ended >= self.threads.keys()

    @property
    def was_tried(self) -> bool:
        return all(thread.was_tried for thread in self.threads.values())

    @property
    def unseen(self) -> dict[str, str]:
        """States by camera where no camera that has not ended sends pictures; else empty."""
        threads = {name: each for name, each in self.threads.copy().items() if name not in self._ended}
        blind = not any(each.is_watching for each in threads.values())
        return {name: thread.state for name, thread in threads.items()} if blind else {}

    def start(self) -> None:
        for thread in self.threads.values():
            thread.loop.start()

    def stop(self) -> None:
        for thread in self.threads.values():
            thread.stop()

    def join(self, until: float) -> bool:
        """Wait for the threads, until a monotonic second; True where all have ended."""
        threads = self.threads.items()
        late = [name for name, thread in threads if not thread.loop.join(max(0.1, until - monotonic()))]
        for name in late:
            logger.warning("%s: the camera's thread did not end in time", name)
        return not late

    def apply(self, plans: Iterable[CameraPlan]) -> str:
        """Let cameras come, go and change, and return in words which did, if any; others are not touched.

        What a changed or removed camera saw until now is still reported under the plan by which it was seen.
        """
        before, self._plans = self._plans, {plan.name: plan for plan in plans}
        changes = []
        for name in before | self._plans:
            now = self._plans.get(name)
            if now == before.get(name) and now:
                self._plans[name] = before[name]
            elif name in self.threads:
                changes.append(f"{name} is {'changed' if now else 'removed'}")
                self.threads[name].stop()
            elif now:
                changes.append(f"{name} is added")
                self._start(now)
        return ", ".join(changes)

    def supervise(self) -> None:
        """Take note of threads that have ended; call it at every turn."""
        for name, thread in list(self.threads.items()):
            if thread.loop.alive:
                continue
            plan = self._plans.get(name)
            if plan is None:
                self._forget(name)
            elif self._is_leaving(name) or monotonic() >= self._due.get(name, math.inf):
                self._start(plan)
            elif name not in self._due and name not in self._ended:
                self._note_end(name, thread)

    def _is_leaving(self, name: str) -> bool:
        return self._plans.get(name) is not self.threads[name].plan

    def _thread(self, plan: CameraPlan) -> CameraThread:
        return CameraThread(plan, self._queue, self._open, heartbeats=self._heartbeats)

    def _open(self, plan: CameraPlan) -> Source:
        return open_source(
            plan.url, plan.source, plan.name, screening=plan.screening, heartbeats=self._heartbeats
        )

    def _start(self, plan: CameraPlan) -> None:
        name = plan.name
        self._ended.discard(name)
        self._due.pop(name, None)
        self.threads[name] = self._thread(plan)
        self._queue.put_change(name, lambda narrator: narrator.add(plan))
        self._queue.begin(name)
        self.threads[name].loop.start()

    def _forget(self, name: str) -> None:
        def remove(narrator: Narrator) -> None:
            narrator.remove(name)
            self._queue.forget(name)

        del self.threads[name]
        self._ended.discard(name)
        self._due.pop(name, None)
        self._queue.put_change(name, remove)

    def _note_end(self, name: str, thread: CameraThread) -> None:
        if not thread.live:
            for sentence in thread.report.errors:
                logger.warning("%s: %s", name, sentence)
            if thread.report.corrupt:
                logger.warning("%s: damaged frames or packets: %d", name, thread.report.corrupt)
        if thread.loop.error is not None:
            logger.error("%s: %s", name, format_error(thread.loop.error))
        if thread.live or (thread.loop.error is not None and thread.plan.url.startswith("rtsp")):
            self._due[name] = monotonic() + RESTART_S
            return
        self._ended.add(name)
        if thread.loop.error is not None or thread.report.damaged:
            self.failed.add(name)


def format_error(error: BaseException) -> str:
    """An error in one line without secrets; unexpected ones with their kind."""
    text = redact(error)
    return text if isinstance(error, SourceError) else f"{type(error).__name__}: {text}"
