"""The queue of an edge with workers: pairs come out in their order, when what they show was looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from daemon.config.plan import CameraPlan
from daemon.threads.accounts import ENDED
from daemon.threads.pair_queue import PairQueue, Proposed
from daemon.threads.pulse import Pulses
from pipeline.loop import Loop
from pipeline.pairs import FramePair
from pipeline.publisher import PublisherError, ServerAwayError

if TYPE_CHECKING:  # they load torch, which an edge does without until something happens
    from torch import Tensor

    from daemon.workers.asks import Asking
    from daemon.workers.sights import Sightings
    from models.grounded.grounded import Grounded

LOOP = "asking"
"""The asking thread's name among the loops that the watchdog goes by."""

IN_FLIGHT = 64
"""Pairs of an edge that wait for workers at a time; each holds its frames, at 1080p some 15 MB."""

ON_SERVER = 512
"""Asks of all edges that lie on the server before no edge adds one."""

_POLL_S = 0.2
_PAUSE_S = 0.5


@dataclass(slots=True, eq=False)
class _Flight:
    """A pair that was taken out of the queue, and what must be seen before it can be told.

    Attributes:
        ready: nothing has to be seen, or nothing can be.
        sent: all of it is asked for, or was.
        landed: the pair was given out.
    """

    one: Proposed
    digests: list[str] = field(default_factory=list)
    ready: bool = False
    sent: bool = False
    landed: bool = False


class WorkersQueue(PairQueue):
    """A `PairQueue` whose pairs of cameras with workers are looked at elsewhere before they come out.

    Each camera's pairs come out in their order. What is not seen by its deadline comes out as late, and its
    ask is taken back. Everything that is decided or remembered stays on this side, so that it does not matter
    which worker looked, how often, or whether it lives.

    Attributes:
        asking: what was asked and answered; None until `begin`.
        sightings: what was seen; None until `begin`.
    """

    def __init__(
        self,
        cameras: list[str],
        capacity: int,
        url: Callable[[], str],
        *,
        pulses: Pulses | None = None,
        in_flight: int = IN_FLIGHT,
        on_server: int = ON_SERVER,
    ) -> None:
        super().__init__(cameras, capacity)
        self.asking: Asking | None = None
        self.sightings: Sightings | None = None
        self._url, self._most, self._on_server, self._pulses = url, in_flight, on_server, pulses
        self._flights: dict[str, deque[_Flight]] = {}
        self._told: list[str] = []  # digests of pairs that are being told
        self._kept: dict[
            str, list[str]
        ] = {}  # by camera, of the pair told last: the next one shows them, too

    def begin(self, captioner: Grounded, plans: Mapping[str, CameraPlan]) -> None:
        """Lend the captioner the workers' eyes, and start to ask.

        Args:
            captioner: tells; its own detector looks for cameras without workers only.
            plans: of the cameras, by name; they may change.

        Raises:
            PublisherError: the server's URL is malformed.
        """
        from daemon.workers.asks import Asking  # noqa: PLC0415 - see the head of the file
        from daemon.workers.broker import Broker, own_name  # noqa: PLC0415
        from daemon.workers.messages import EdgeCard  # noqa: PLC0415
        from daemon.workers.sights import Sightings  # noqa: PLC0415
        from models.grounded.sight import seen  # noqa: PLC0415

        cameras = sum(plan.workers for plan in plans.values())
        card = EdgeCard(
            name=own_name(), captioner=captioner.name, checkpoint=captioner.sha256, cameras=cameras
        )
        sightings = Sightings(partial(seen, captioner.detector))
        asking = Asking(
            Broker(self._url), card, sightings, self._heard, bound=self._on_server, pulses=self._pulses
        )
        self._captioner, self._plans, self._sightings, self._asking = captioner, plans, sightings, asking
        self.asking, self.sightings = asking, sightings
        captioner.eyes = sightings
        self.loops = [asking.loop, Loop(LOOP, self._turn, pulses=self._pulses)]
        for loop in self.loops:
            loop.start()

    def leave(self, limit_s: float) -> None:
        """Ask no more, and take back what is asked."""
        for loop in reversed(self.loops):
            loop.stop()
            loop.join(limit_s)

    @property
    def held(self) -> int:
        """Pairs waiting, those that are being looked at included."""
        with self._changed:
            return self._held() + sum(map(len, self._flights.values()))

    @property
    def waiting(self) -> set[str]:
        """Cameras of which pairs wait."""
        with self._changed:
            return super().waiting | {camera for camera, mine in self._flights.items() if mine}

    @property
    def waited_s(self) -> float:
        """See `PairQueue`."""
        with self._changed:
            since = [mine[0].one.since for mine in self._flights.values() if mine]
            flown = max((monotonic() - began for began in since if began is not None), default=0.0)
            return max(flown, super().waited_s)

    def ended(self, camera: str) -> bool:
        """True where the camera has ended and all its pairs were taken."""
        with self._changed:
            return super().ended(camera) and not self._flights.get(camera)

    def remove(self, camera: str) -> None:
        """Forget a camera that has ended."""
        with self._changed:
            super().remove(camera)
            self._flights.pop(camera, None)
            self._told += self._kept.pop(camera, ())

    def abandon(self) -> int:
        """Drop all that is held, and count it; how many that were."""
        with self._changed:
            flown = 0
            for camera, mine in self._flights.items():
                self.accounts.drop(camera, ENDED, len(mine))
                flown += len(mine)
                mine.clear()
            return flown + super().abandon()

    def take(self, size: int, wait_s: float, limit_s: float = _POLL_S) -> list[Proposed]:  # noqa: ARG002 - workers fill batches
        """Pairs that can be told, each camera's in their order; late ones do not count for the size."""
        with self._changed:
            if self.sightings is not None:
                self.sightings.release(self._told)
            self._told = []
            self._changed.wait_for(lambda: self._due() or (self._closed and not self.held), limit_s)
            return self._given_out(size)

    def _due(self) -> bool:
        now = monotonic()
        return any(mine and self._settled(mine[0], now) for mine in self._flights.values())

    def _settled(self, flight: _Flight, now: float) -> bool:
        return flight.ready or flight.one.overdue(now) or (flight.sent and self._seen(flight))

    def _seen(self, flight: _Flight) -> bool:
        return all(map(self._sightings.known, flight.digests))

    def _given_out(self, size: int) -> list[Proposed]:
        now, batch, room = monotonic(), list[Proposed](), size
        for camera, mine in self._flights.items():
            while mine and room and self._settled(mine[0], now):
                flight = mine.popleft()
                one, flight.landed = flight.one, True
                if not (flight.ready or (flight.sent and self._seen(flight))):
                    one = replace(one, late=True)
                    self._sightings.release(flight.digests)  # nobody will look at it
                elif not one.late:
                    self._told += self._kept.get(camera, ())
                    self._kept[camera] = flight.digests
                room -= not one.late
                batch.append(one)
        if batch:
            self._changed.notify_all()
        return batch

    def _heard(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _turn(self) -> None:
        """Take pairs that wait and have them looked at; look after those whose ask was lost."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room() and self._held(), _POLL_S)
            batch = super().take(1, 0.0, 0.0) if self._has_room() else self._overdue_here()
            for one in batch:
                self._flights.setdefault(one.pair.after.camera, deque()).append(_Flight(one))
            flights = [flight for mine in self._flights.values() for flight in mine if not flight.ready]
        try:
            asked = self._asking.asked()
            for flight in flights:
                if not self.loops[1].stopped.is_set():
                    asked |= self._send(flight, asked)
            self._asking.give_up()
        except PublisherError:  # the listening thread tells
            self.loops[1].stopped.wait(_PAUSE_S)
        self._heard()

    def _overdue_here(self) -> list[Proposed]:
        """Pairs that have waited too long here, where no more may be asked for."""
        now = monotonic()
        late = self._late(now)
        for mine in self._pairs.values():
            while mine and mine[0].overdue(now):
                late.append(replace(mine.popleft(), late=True))
        return late

    def _has_room(self) -> bool:
        flown = sum(not flight.ready for mine in self._flights.values() for flight in mine)
        return flown < self._most and not self._asking.full and not self._asking.away

    def _to_see(self, pair: FramePair, plan: CameraPlan) -> list[Tensor]:
        from pipeline.narration.batch import pictures_to_see  # noqa: PLC0415

        return pictures_to_see(pair, self._captioner, plan.change_options(self._captioner))

    def _send(self, flight: _Flight, asked: set[str]) -> set[str]:
        """Have looked at what nobody has looked at, nor is looking at; the digests of what is asked for."""
        one, camera = flight.one, flight.one.pair.after.camera
        plan = self._plans.get(camera)
        if one.late or plan is None or not plan.workers:
            flight.ready = True
            return set()
        if flight.digests and all(d in asked or self._sightings.known(d) for d in flight.digests):
            return set()
        try:
            pictures = self._to_see(one.pair, plan)
        except Exception:  # noqa: BLE001 - the narrator meets it again, and tells the change all the same
            flight.ready = True
            return set()
        if not pictures:
            flight.ready = True
            return set()
        from daemon.workers.sights import digest  # noqa: PLC0415

        named = {digest(picture): picture for picture in pictures}
        with self._changed:
            if flight.landed:
                return set()
            if not flight.digests:
                flight.digests = list(named)
                self._sightings.need(list(named))
        new = {d: p for d, p in named.items() if d not in asked and not self._sightings.known(d)}
        if new:
            try:
                self._asking.ask(camera, list(new), list(new.values()))
            except ServerAwayError:
                raise
            except PublisherError as error:
                self._sightings.learn(list(new), [str(error)] * len(new))
        flight.sent = True
        return set(new)
