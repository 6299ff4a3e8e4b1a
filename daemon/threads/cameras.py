"""All cameras of the daemon: threads that broke start again, and cameras come and go as configured."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic

from daemon.config.plan import CameraPlan
from daemon.threads.camera_thread import CameraThread
from daemon.threads.narrator import Narrator
from daemon.threads.work_queue import WorkQueue
from pipeline.loop import Heartbeats
from pipeline.sources import Source, SourceError, open_source, redact

RESTART_S = 10.0
"""A camera's thread that a fault has ended starts again after this; sources themselves try again sooner."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CameraWatch:
    """A camera's thread, and the plan that it should follow.

    Attributes:
        thread: the running one, or the last.
        plan: in force by the configuration; None where the camera was removed.
        over: its footage has ended.
        due: monotonic second at which the thread starts again; None while it need not.
    """

    thread: CameraThread
    plan: CameraPlan | None
    over: bool = False
    due: float | None = None

    @property
    def is_leaving(self) -> bool:
        """True while the thread ends because the plan has changed."""
        return self.plan is not self.thread.plan


class Cameras:
    """The cameras that are watched; only the main thread changes them.

    Attributes:
        failed: those whose footage could not be read entirely.
    """

    def __init__(
        self, plans: Iterable[CameraPlan], queue: WorkQueue, heartbeats: Heartbeats | None = None
    ) -> None:
        self.failed: set[str] = set()
        self._queue, self._heartbeats = queue, heartbeats
        self.watched = {plan.name: CameraWatch(self._thread(plan), plan) for plan in plans}

    @property
    def threads(self) -> dict[str, CameraThread]:
        """The threads by camera; a copy, for readers in other threads."""
        return {name: camera.thread for name, camera in self.watched.copy().items()}

    @property
    def over(self) -> bool:
        return all(camera.over for camera in self.watched.values())

    @property
    def was_tried(self) -> bool:
        return all(thread.was_tried for thread in self.threads.values())

    @property
    def unseen(self) -> dict[str, str]:
        """States by camera where no camera that has not ended sends pictures; else empty."""
        threads = {name: camera.thread for name, camera in self.watched.copy().items() if not camera.over}
        blind = not any(each.is_watching for each in threads.values())
        return {name: thread.state for name, thread in threads.items()} if blind else {}

    @property
    def skews(self) -> dict[str, float | None]:
        """Each live camera's clock minus ours, in seconds; None where it sends no time."""
        return {name: thread.report.skew_s for name, thread in self.threads.items() if thread.live}

    def start(self) -> None:
        for camera in self.watched.values():
            camera.thread.loop.start()

    def stop(self) -> None:
        for camera in self.watched.values():
            camera.thread.stop()

    def join(self, until: float) -> bool:
        """Wait for the threads, until a monotonic second; True where all have ended."""
        threads = self.threads.items()
        late = [name for name, thread in threads if not thread.loop.join(max(0.1, until - monotonic()))]
        for name in late:
            logger.warning("%s: the camera's thread did not end in time", name)
        return not late

    def apply(self, plans: Iterable[CameraPlan]) -> str:
        """Let cameras come, go and change, and return in words which did; others are not touched.

        What a changed or removed camera saw until now is still reported under the plan by which it was seen.
        """
        wanted = {plan.name: plan for plan in plans}
        changes = []
        for name, camera in self.watched.items():
            plan = wanted.get(name)
            if camera.plan != plan:
                changes.append(f"{name} is {'changed' if plan else 'removed'}")
                camera.plan = plan
                camera.thread.stop()
        for name, plan in wanted.items():
            if name not in self.watched:
                changes.append(f"{name} is added")
                self.watched[name] = CameraWatch(self._thread(plan), plan)
                self._start(self.watched[name])
        return ", ".join(changes) or "no camera has changed"

    def supervise(self) -> None:
        """Take note of threads that have ended; call it at every turn."""
        for name, camera in list(self.watched.items()):
            if camera.thread.loop.alive:
                continue
            if camera.is_leaving and camera.plan is None:
                del self.watched[name]
                self._queue.put_change(name, partial(self._remove, name))
            elif camera.is_leaving or (camera.due is not None and monotonic() >= camera.due):
                self._start(camera)
            elif camera.due is None and not camera.over:
                self._note_end(name, camera)

    def _thread(self, plan: CameraPlan, earlier: CameraThread | None = None) -> CameraThread:
        return CameraThread(plan, self._queue, self._open, earlier=earlier, heartbeats=self._heartbeats)

    def _open(self, plan: CameraPlan) -> Source:
        return open_source(
            plan.url, plan.source, plan.name, screening=plan.screening, heartbeats=self._heartbeats
        )

    def _start(self, camera: CameraWatch) -> None:
        """Start a camera's first thread, or one in place of that which has ended, by the plan in force."""
        plan = camera.plan
        assert plan  # noqa: S101 - a camera that was removed is not started
        if camera.thread.loop.started:
            camera.thread = self._thread(plan, camera.thread)
        camera.over, camera.due = False, None
        self._queue.put_change(plan.name, lambda narrator: narrator.add(plan))
        self._queue.begin(plan.name)
        camera.thread.loop.start()

    def _remove(self, name: str, narrator: Narrator) -> None:
        narrator.remove(name)
        self._queue.forget(name)

    def _note_end(self, name: str, camera: CameraWatch) -> None:
        """A thread has ended by itself; a live camera's is started again."""
        thread = camera.thread
        if not thread.live:
            for sentence in thread.report.errors:
                logger.warning("%s: %s", name, sentence)
            if thread.report.corrupt:
                logger.warning("%s: damaged frames or packets: %d", name, thread.report.corrupt)
        if thread.loop.error is not None:
            logger.error("%s: %s", name, format_error(thread.loop.error))
        if thread.live or (thread.loop.error is not None and thread.plan.url.startswith("rtsp")):
            camera.due = monotonic() + RESTART_S
            return
        camera.over = True
        if thread.loop.error is not None or thread.report.damaged:
            self.failed.add(name)


def format_error(error: BaseException) -> str:
    """An error in one line without secrets; unexpected ones with their kind."""
    text = redact(error)
    return text if isinstance(error, SourceError) else f"{type(error).__name__}: {text}"
