"""Threads that report progress and keep the error that ended them, and growing pauses between attempts."""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_log = logging.getLogger(__name__)

LIMIT_S = 20.0  # a loop without progress for this long hangs, unless its last beat allowed more


class Heartbeats:
    """When each loop last made progress, for the watchdog and `/healthz`; may be used by any thread.

    A loop beats after real work: it looked at a frame, narrated a batch, asked the server,
    or found that there is nothing to do. A timer beside the loop would beat for one that hangs.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, float]] = {}

    def beat(self, loop: str, within_s: float = LIMIT_S) -> None:
        self._beats[loop] = self._clock(), within_s

    def forget(self, loop: str) -> None:
        self._beats.pop(loop, None)

    def ages_s(self) -> dict[str, float]:
        now = self._clock()
        return {loop: max(0.0, now - at) for loop, (at, _) in self._beats.copy().items()}

    def overdue(self) -> dict[str, float]:
        """The loops that hang, with the seconds since their last beat."""
        now = self._clock()
        return {loop: now - at for loop, (at, within_s) in self._beats.copy().items() if now - at > within_s}


class Loop:
    """Calls `turn` again and again in a thread of its own, until it is asked to stop or an error ends it.

    A turn that calls `stop` is the last. Before each is a pause of `every_s`, which `wake` cuts short; before
    the first there is none with `at_once`. A turn that takes longer than `within_s` counts as hanging; None
    for `heartbeats` where progress is watched in another way. `last` is called at the end, error or not.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], None],
        every_s: float = 0.0,
        *,
        heartbeats: Heartbeats | None = None,
        within_s: float = LIMIT_S,
        last: Callable[[], None] = lambda: None,
        at_once: bool = False,
    ) -> None:
        self.error: BaseException | None = None  # what ended it; None where it was asked to
        self.stopped = threading.Event()  # set from `stop` on; turns that wait should wait for it
        self._name, self._turn, self._last = name, turn, last
        self._every_s, self._within_s, self._heartbeats = every_s, within_s, heartbeats
        self._woken = threading.Event()
        if at_once:
            self._woken.set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is something to do: the next turn begins at once."""
        self._woken.set()

    def stop(self) -> None:
        self.stopped.set()
        self._woken.set()

    def end(self, limit_s: float) -> bool:
        """Ask the loop to end, and wait for it; True where it does not run any more."""
        self.stop()
        return self.join(limit_s)

    def join(self, limit_s: float) -> bool:
        if self.started:
            self._thread.join(max(0.0, limit_s))
        return not self.alive

    def beat(self, within_s: float | None = None) -> None:
        """The loop has made progress, and will again within `within_s`; None is its usual limit."""
        if self._heartbeats is not None:
            self._heartbeats.beat(self._name, self._within_s if within_s is None else within_s)

    def raise_error(self) -> None:
        """Raise what has ended the loop; for the thread that started it."""
        if self.error is not None:
            raise self.error

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            try:
                self._turns()
            finally:
                self.beat()
                self._last()
        except BaseException as error:  # noqa: BLE001 - every thread's error reaches who started it
            self.error = error
        finally:
            if self._heartbeats is not None:
                self._heartbeats.forget(self._name)

    def _turns(self) -> None:
        while True:
            self.beat(self._every_s + self._within_s)
            self._woken.wait(self._every_s)
            self._woken.clear()
            if self.stopped.is_set():
                return
            self.beat()
            self._turn()


class Faults(dict[str, str]):
    """Why things fail now, by name; a reason is logged once, and that it is over."""

    @contextmanager
    def noted(self, name: str, consequence: str, *kinds: type[Exception]) -> Iterator[None]:
        """Note an error of these kinds in the block, and go on; the log has consequence and reason."""
        try:
            yield
        except kinds as error:
            reason = getattr(error, "strerror", None) or str(error)  # without the file: each may be another
            if self.get(name) != reason:
                _log.error("%s: %s", consequence, error)
            self[name] = reason
        else:
            if self.pop(name, ""):
                _log.warning("resolved: %s", consequence)


class Backoff:
    """Growing pauses while something is away, with a warning now and then, and when the reason changes.

    The pauses are jittered, so that not all who were cut off return at the same moment; `to_double` failures
    double them. After `warn_every_s` the same reason is logged again.
    """

    def __init__(
        self,
        name: str = "redis",
        first_s: float = 0.1,
        longest_s: float = 5.0,
        *,
        to_double: int = 1,
        warn_every_s: float = 60.0,
    ) -> None:
        self.reason = ""  # why it cannot be used now, without secrets; empty while it answers
        self._name, self._first_s, self._longest_s = name, first_s, longest_s
        self._to_double, self._warn_every_s = to_double, warn_every_s
        self._failures, self._since, self._warned_at = 0, 0.0, 0.0

    def next_s(self, reason: str) -> float:
        """It did not answer; seconds after which it is asked again."""
        now = monotonic()
        if not self.reason:
            self._since = now
        if reason != self.reason or now - self._warned_at >= self._warn_every_s:
            self._warned_at = now
            _log.warning("%s: %s; retrying until it recovers", self._name, reason.rstrip("."))
        pause_s = min(self._first_s * 2 ** (self._failures / self._to_double), self._longest_s)
        self.reason, self._failures = reason, min(self._failures + 1, 100)  # beyond, no pause grows
        return pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def reset(self) -> None:
        if self.reason:
            _log.warning("%s: works again after %.1f s", self._name, monotonic() - self._since)
        self.reason, self._failures = "", 0
