"""An edge's talk with the server: asks go out, answers come in, and what a server has lost is noticed."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any

from torch import Tensor

from daemon.threads.pulse import Pulses
from daemon.workers.broker import (
    CARD_S,
    Broker,
    answers_key,
    asks_key,
    card_key,
    claims_key,
    pictures_key,
    waiting,
    workers,
)
from daemon.workers.messages import (
    Ask,
    EdgeCard,
    MessageError,
    Reply,
    encoded,
    parsed,
    unpacked,
)
from daemon.workers.sights import Sightings
from pipeline.loop import Loop
from pipeline.publisher import PublisherError

LOOP = "workers"
"""The listening thread's name among the loops that the watchdog goes by."""

ANSWERS_KEPT = 10_000
KEPT_S = 120
"""Pictures that wait for so long are gone from the server; who still waits for them asks again."""

_BLOCK_MS = 500
_EVERY_S = 1.0
_PAUSE_S = 0.5
_REMEMBERED = 4096  # asks that were given up, to tell late answers from answers that come twice
_ALONE_S = 10.0  # without a worker that is worth a warning
_TAKEN = 256

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenAsk:
    """An ask without an answer.

    Attributes:
        entry: its id on the stream.
        digests: of its pictures.
        asked_at: monotonic seconds.
        missed: it was not on the server when that was last asked.
    """

    entry: bytes
    digests: list[str]
    asked_at: float
    missed: bool = False


@dataclass(slots=True)
class AskCounts:
    """Of asks and answers; what only rises.

    Attributes:
        fates: asks by what became of them: answered, refused, given up, lost (and asked again).
        stray: answers that nobody waited for: late ones, and second ones.
        sent_bytes, received_bytes: pictures and what was seen in them.
        pictures: sent.
        waited_s: from asks to their answers, all together.
        claims: asks that another worker took over, of all edges.
    """

    fates: Counter[str] = field(default_factory=Counter)
    stray: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    received_bytes: int = 0
    pictures: int = 0
    waited_s: float = 0.0
    claims: int = 0


class Asking:
    """Asks workers to look at pictures; answers go into `sightings`.

    Args:
        broker: the server.
        card: who asks, and for which checkpoint.
        sightings: told what was seen.
        heard: called whenever answers have come, or asks were lost.
        bound: asks of all edges together that may lie on the server.
        pulses: told of every turn of the listening thread.

    Attributes:
        counts: see there.
        card: with its numbers as last told.
        alive: workers that have the checkpoint; others that have another one.
        waiting: asks of all edges on the server that are not answered.
        away: why the server does not answer; empty while it does.
    """

    def __init__(
        self,
        broker: Broker,
        card: EdgeCard,
        sightings: Sightings,
        heard: Callable[[], None],
        *,
        bound: int,
        pulses: Pulses | None = None,
    ) -> None:
        self.counts, self.card = AskCounts(), card
        self.alive: tuple[int, int] = (0, 0)
        self.waiting, self.away = 0, ""
        self.loop = Loop(LOOP, self._turn, pulses=pulses, last=self._leave)
        self._broker, self._sightings, self._heard, self._bound = broker, sightings, heard, bound
        self._encoders = ThreadPoolExecutor(os.cpu_count(), "encoding")
        self._numbers = count(1)
        self._open: dict[str, OpenAsk] = {}
        self._given_up: dict[str, None] = {}
        self._lock = threading.Lock()
        self._kept_at, self._alone_since = float("-inf"), monotonic()
        self._warned = False

    @property
    def full(self) -> bool:
        """Whether the stream takes no more now."""
        return self.waiting >= self._bound

    @property
    def in_flight(self) -> int:
        """Asks that wait for an answer."""
        return len(self._open)

    def asked(self) -> set[str]:
        """Digests of the pictures that are being looked at."""
        with self._lock:
            return {each for ask in self._open.values() for each in ask.digests}

    def ask(self, camera: str, digests: Sequence[str], pictures: Sequence[Tensor]) -> None:
        """Have pictures looked at.

        Raises:
            ServerAwayError: nothing was asked, or it is not known whether; ask again.
            PublisherError: the server refuses, and will again.
        """
        data = list(self._encoders.map(encoded, pictures))
        ask = Ask(
            id=f"{self.card.name}:{next(self._numbers)}",
            edge=self.card.name,
            camera=camera,
            checkpoint=self.card.checkpoint,
            pictures=len(data),
        )
        stream, beside = asks_key(ask.checkpoint), pictures_key(ask.id)
        with self._broker.asked() as client:
            together = client.pipeline(transaction=True)
            together.hset(beside, mapping=dict(enumerate(data)))
            together.expire(beside, KEPT_S)
            together.xadd(stream, {"ask": ask.model_dump_json()})
            together.xlen(stream)
            # Before it is sent: the answer may come while we still hear that it was taken.
            with self._lock:
                self._open[ask.id] = OpenAsk(b"", list(digests), monotonic())
            try:
                *_, entry, self.waiting = together.execute()
            except BaseException:
                self._forget(ask.id)
                raise
        with self._lock:
            if ask.id in self._open:
                self._open[ask.id].entry = entry
        self.counts.fates["asked"] += 1
        self.counts.pictures += len(data)
        self.counts.sent_bytes += sum(map(len, data))

    def give_up(self) -> None:
        """Take back the asks whose pictures nobody needs any more; an answer that still comes is late."""
        with self._lock:
            forsaken = {n: a for n, a in self._open.items() if not self._sightings.needed(a.digests)}
        for name in forsaken:
            self._forget(name)
            self.counts.fates["given up"] += 1
        if not forsaken:
            return
        with self._broker.asked() as client:
            together = client.pipeline(transaction=True)
            together.xdel(asks_key(self.card.checkpoint), *(a.entry for a in forsaken.values() if a.entry))
            together.delete(*map(pictures_key, forsaken))
            together.execute()

    def _forget(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)
            self._given_up[name] = None
            for oldest in list(self._given_up)[:-_REMEMBERED]:
                del self._given_up[oldest]

    def _turn(self) -> None:
        try:
            self._listen()
            if monotonic() - self._kept_at >= _EVERY_S:
                self._kept_at = monotonic()
                self._keep_house()
            if self.away:
                logger.warning("workers: the server answers again")
            self.away = ""
        except PublisherError as error:
            if not self.away:
                logger.warning("workers: %s; what waits too long is told without the captioner", error)
            self.away = str(error)
            self.loop.stopped.wait(_PAUSE_S)

    def _listen(self) -> None:
        """Take in the answers that have come; they are removed, so that no clock decides what is new."""
        key = answers_key(self.card.name)
        with self._broker.asked() as client:
            answer: Any = client.xread({key: "0"}, count=_TAKEN, block=_BLOCK_MS)
            entries = answer[0][1] if answer else []
            for _, told in entries:
                self._take(told)
            if entries:
                self._heard()
                client.xdel(key, *(entry for entry, _ in entries))

    def _take(self, told: dict[bytes, bytes]) -> None:
        try:
            answer = parsed(Reply, told.get(b"answer"))
        except MessageError as error:
            logger.warning("workers: an answer was passed over: %s", error)
            self.counts.stray["unreadable"] += 1
            return
        with self._lock:
            ask = self._open.pop(answer.id, None)
        if ask is None:
            self.counts.stray["late" if answer.id in self._given_up else "twice"] += 1
            return
        data = told.get(b"seen", b"")
        self.counts.received_bytes += len(data)
        self.counts.waited_s += monotonic() - ask.asked_at
        refused = answer.refused
        try:
            seen = [] if refused else unpacked(data, len(ask.digests))
        except MessageError as error:
            refused = str(error)
        if refused:
            logger.warning("workers: %s did not look: %s", answer.worker, refused)
        self._sightings.learn(ask.digests, [refused] * len(ask.digests) if refused else seen)
        self.counts.fates["refused" if refused else "answered"] += 1

    def _keep_house(self) -> None:
        """Say that this edge lives, ask who else does, and notice what the server has lost."""
        self._notice_losses()
        fates = self.counts.fates
        self.card = self.card.model_copy(
            update={"asked": fates["asked"], "answered": fates["answered"], "in_flight": self.in_flight}
        )
        with self._broker.asked() as client:
            client.set(card_key("edge", self.card.name), self.card.model_dump_json(), ex=CARD_S)
            told: Any = client.get(claims_key(self.card.checkpoint))
        self.counts.claims = max(self.counts.claims, int(told or 0))
        self.waiting = waiting(self._broker, self.card.checkpoint)[0]
        self._look_for_workers()

    def _notice_losses(self) -> None:
        """An ask whose pictures were gone twice, a turn of listening apart, was not answered but lost."""
        with self._lock:
            suspects = {n: a for n, a in self._open.items() if monotonic() - a.asked_at >= _EVERY_S}
        if not suspects:
            return
        with self._broker.asked() as client:
            together = client.pipeline(transaction=False)
            for name in suspects:
                together.exists(pictures_key(name))
            there = together.execute()
        lost = 0
        for (name, ask), is_there in zip(suspects.items(), there, strict=True):
            if not is_there and ask.missed:
                self._forget(name)
                lost += 1
            ask.missed = not is_there
        if lost:
            self.counts.fates["lost"] += lost
            logger.warning("workers: the server has lost %d asks; they are asked again", lost)
            self._heard()

    def _look_for_workers(self) -> None:
        every = workers(self._broker)
        ours = sum(card.checkpoint == self.card.checkpoint for card in every)
        self.alive = ours, len(every) - ours
        if ours or not self._open:
            self._alone_since, self._warned = monotonic(), False
        elif monotonic() - self._alone_since >= _ALONE_S and not self._warned:
            self._warned = True
            others = {f"{card.captioner} {card.checkpoint[:12]}" for card in every}
            logger.warning(
                "workers: none has the checkpoint %s %s (%s): start `narrated worker` with this version, "
                "or name the checkpoint on both sides",
                self.card.captioner,
                self.card.checkpoint[:12],
                "others have " + ", ".join(sorted(others)) if others else "there are none",
            )

    def _leave(self) -> None:
        """Nobody will listen: take everything back while the server answers."""
        try:
            with self._lock:
                left = dict(self._open)
            with self._broker.asked() as client:
                together = client.pipeline(transaction=True)
                if entries := [ask.entry for ask in left.values() if ask.entry]:
                    together.xdel(asks_key(self.card.checkpoint), *entries)
                names = [
                    *map(pictures_key, left),
                    answers_key(self.card.name),
                    card_key("edge", self.card.name),
                ]
                together.delete(*names)
                together.execute()
        except PublisherError as error:
            logger.info("workers: what was asked last is not taken back: %s", error)
        self._encoders.shutdown(wait=False)
        self._broker.close()
