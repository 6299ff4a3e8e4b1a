"""`narrated worker`: takes asks as one of a consumer group, looks at the pictures, answers the edges."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import redis
from torch import Tensor

from daemon.workers.asks import ANSWERS_KEPT, KEPT_S
from daemon.workers.broker import (
    CARD_S,
    GROUP,
    Broker,
    answers_key,
    asks_key,
    card_key,
    claims_key,
    edges,
    pictures_key,
)
from daemon.workers.messages import Ask, MessageError, Reply, WorkerCard, decoded, packed, parsed
from models.detections import Detections
from pipeline.loop import Loop
from pipeline.publisher import PublisherError, ServerAwayError
from pipeline.redaction import redacted

CLAIM_S = 5.0
"""Asks of a worker that has said nothing for so long are taken over."""

MOST_TRIES = 3
"""An ask that so many workers have taken and not answered is refused: it may be what ends them."""

LONGEST_S = 120.0
"""A batch that takes longer hangs: its asks are left to others, and the watchdog is not fed."""

_BLOCK_MS = 500
_BEAT_S = 1.0
_PAUSE_S = (0.1, 2.0)
_FORGOTTEN_S = 600.0
_MINUTE_S = 60.0
_LONGEST = 300  # of an error's text

Look = Callable[[Sequence[Tensor]], Sequence[Detections]]
"""What is in pictures, uint8 RGB ``(3, h, w)``."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _AskInHand:
    """An ask in hand.

    Attributes:
        entry: its id on the stream.
        ask: what is asked.
        pictures: to be looked at.
        refused: why they are not.
    """

    entry: bytes
    ask: Ask
    pictures: list[Tensor]
    refused: str = ""


class Worker:
    """Looks at what edges ask for; holds nothing that anybody would miss.

    Attributes:
        card: with its numbers as they are now.
        stuck: True where a batch takes too long.
        away: why the server does not answer; empty while it does.
    """

    def __init__(
        self, broker: Broker, card: WorkerCard, look: Look, *, batch: int = 1, claim_s: float = CLAIM_S
    ) -> None:
        self.card, self.away = card, ""
        self._broker, self._look, self._batch, self._claim_s = broker, look, batch, claim_s
        self._stream = asks_key(card.checkpoint)
        self._held: list[bytes] = []
        self._done: deque[tuple[float, int]] = deque()
        self._busy_since: float | None = None
        self._claimed_at = float("-inf")
        self._pause_s = _PAUSE_S[0]
        self._told: frozenset[str] = frozenset()
        self._tries: dict[bytes, int] = {}
        self._beating = Loop("beat", self._beat, min(_BEAT_S, claim_s / 4))

    @property
    def stuck(self) -> bool:
        """Whether it hangs."""
        since = self._busy_since
        return since is not None and monotonic() - since > LONGEST_S

    def run(self, stop: threading.Event, progress: Callable[[], None] = lambda: None) -> None:
        """Work until it is asked to stop; what is in hand then is done first.

        `progress` is called at every turn.

        Raises:
            PublisherError: the server refuses for good.
        """
        self._beating.start()
        try:
            while not stop.is_set():
                progress()
                self._beating.raise_error()
                try:
                    self._turn(stop)
                    if self.away:
                        logger.warning("the server answers again")
                    self.away, self._pause_s = "", _PAUSE_S[0]
                except ServerAwayError as error:
                    if not self.away:
                        logger.warning("%s; trying again until it is back", error)
                    self.away = str(error)
                    stop.wait(self._pause_s)
                    self._pause_s = min(2 * self._pause_s, _PAUSE_S[1])
        finally:
            self._beating.stop()
            self._beating.join(1.0)
            self._leave()

    def _turn(self, stop: threading.Event) -> None:
        """Take a batch, look, answer."""
        taken = self._claimed() or self._read()
        if not taken:
            return
        held = self._fetched(taken)
        self._held = [each.entry for each in held]
        began = self._busy_since = monotonic()
        cameras = tuple(sorted({each.ask.camera for each in held}))[:8]
        self.card = self.card.model_copy(update={"cameras": cameras})
        try:
            seen = self._seen([each for each in held if not each.refused])
            self.card = self._counted(held, monotonic() - began)
            self._answer(held, seen, stop)
        finally:
            self._held, self._busy_since = [], None

    def _read(self) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Asks that nobody has taken yet."""
        with self._broker.asked() as client:
            try:
                new: Any = client.xreadgroup(
                    GROUP, self.card.name, {self._stream: ">"}, count=self._batch, block=_BLOCK_MS
                )
            except redis.ResponseError as error:
                if "NOGROUP" not in str(error) and "no longer exists" not in str(error):
                    raise
                self._broker.make_group(self.card.checkpoint)  # at the start, or the server was flushed
                return []
        return list(new[0][1]) if new else []

    def _claimed(self) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Asks of workers that say nothing any more."""
        if monotonic() - self._claimed_at < self._claim_s / 4:
            return []
        self._claimed_at, idle_ms = monotonic(), round(1000 * self._claim_s)
        with self._broker.asked() as client:
            try:
                idle: Any = client.xpending_range(self._stream, GROUP, "-", "+", 64, idle=idle_ms)
            except redis.ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                return []
            if not idle:
                self._tidy(client)
                return []
            claimed: Any = client.xautoclaim(self._stream, GROUP, self.card.name, idle_ms, "0-0", self._batch)
            found = [(entry, told) for entry, told in claimed[1] if entry is not None and told]
            if len(found) < len(claimed[1]):
                self._strike_off(client, [each["message_id"] for each in idle])
            if found:
                client.incrby(claims_key(self.card.checkpoint), len(found))
                logger.info("took over %d asks of a worker that says nothing any more", len(found))
        self._tries = {each["message_id"]: each["times_delivered"] for each in idle}
        self.card = self.card.model_copy(update={"claims": self.card.claims + len(found)})
        return found

    def _strike_off(self, client: redis.Redis, entries: Sequence[bytes]) -> None:
        """Redis 6.2 hands on asks that were taken back for ever: nobody will answer them."""
        for entry in entries:
            if not client.xrange(self._stream, entry, entry):
                client.xack(self._stream, GROUP, entry)

    def _tidy(self, client: redis.Redis) -> None:
        """Forget workers that have not been heard of for long, and have nothing in hand."""
        known: Any = client.xinfo_consumers(self._stream, GROUP)
        for each in known:
            if each["pending"] == 0 and each["idle"] > 1000 * _FORGOTTEN_S:
                client.xgroup_delconsumer(self._stream, GROUP, each["name"])

    def _fetched(self, taken: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> list[_AskInHand]:
        """Asks with their pictures; those that nobody waits for any more are struck off."""
        asks, unread = list[tuple[bytes, Ask]](), list[bytes]()
        for entry, told in taken:
            try:
                asks.append((entry, parsed(Ask, told.get(b"ask"))))
            except MessageError as error:
                logger.warning("an ask was passed over: %s", error)
                unread.append(entry)
        with self._broker.asked() as client:
            together = client.pipeline(transaction=False)
            for _, ask in asks:
                together.hgetall(pictures_key(ask.id))
            found = together.execute()
            held = [self._opened(e, ask, data) for (e, ask), data in zip(asks, found, strict=True) if data]
            struck = unread + [e for (e, _), data in zip(asks, found, strict=True) if not data]
            if struck:
                client.xack(self._stream, GROUP, *struck)
                client.xdel(self._stream, *struck)
        self._tries = {}
        return held

    def _opened(self, entry: bytes, ask: Ask, data: dict[bytes, bytes]) -> _AskInHand:
        """An ask whose pictures are decoded, or why it is refused."""
        held = _AskInHand(entry, ask, [])
        if ask.checkpoint != self.card.checkpoint:
            held.refused = f"it has checkpoint {self.card.checkpoint[:12]}, not {ask.checkpoint[:12]}"
        elif (tries := self._tries.get(entry, 0)) >= MOST_TRIES:
            held.refused = f"{tries} workers have taken this ask and not answered"
        else:
            try:
                held.pictures = [decoded(data.get(b"%d" % n, b"")) for n in range(ask.pictures)]
            except MessageError as error:
                held.refused = str(error)
        return held

    def _seen(self, asked: list[_AskInHand]) -> list[list[Detections]]:
        """What is in the pictures of each ask; one that cannot be done is refused, and the only one."""
        if not asked:
            return []
        try:
            every = iter(self._look([picture for each in asked for picture in each.pictures]))
            return [[next(every) for _ in each.pictures] for each in asked]
        except Exception as error:  # noqa: BLE001 - whatever happens, the edge must hear of it
            words = f"{type(error).__name__}: {redacted(error)[:_LONGEST]}"
        # Outside of the handler: the error would hold the tensors that must be freed first.
        if len(asked) > 1:
            half = len(asked) // 2
            return self._seen(asked[:half]) + self._seen(asked[half:])
        logger.warning("an ask cannot be done: %s", words)
        asked[0].refused = words
        return [[]]

    def _answer(self, held: list[_AskInHand], seen: list[list[Detections]], stop: threading.Event) -> None:
        """Reply, and strike off what was asked, in one; while the server is away, try again."""
        looked = iter(seen)
        answers = list[tuple[_AskInHand, dict[Any, Any]]]()
        for each in held:
            found = next(looked) if each.pictures else []
            told = Reply(id=each.ask.id, worker=self.card.name, refused=each.refused).model_dump_json()
            data = b"" if each.refused else packed(found)
            answers.append((each, {"answer": told, "seen": data}))
        while True:
            try:
                with self._broker.asked() as client:
                    together = client.pipeline(transaction=True)
                    for each, fields in answers:
                        key = answers_key(each.ask.edge)
                        together.xadd(key, fields, maxlen=ANSWERS_KEPT, approximate=True)
                        together.expire(key, KEPT_S)
                        together.xack(self._stream, GROUP, each.entry)
                        together.xdel(self._stream, each.entry)
                        together.delete(pictures_key(each.ask.id))
                    together.execute()
            except ServerAwayError as error:
                self.away = str(error)
                if stop.wait(_PAUSE_S[1]):
                    return  # another one takes it over
            else:
                return

    def _counted(self, held: list[_AskInHand], took_s: float) -> WorkerCard:
        """The card after a batch."""
        now, card = monotonic(), self.card
        self._done.append((now, len(held)))
        while self._done and self._done[0][0] < now - _MINUTE_S:
            self._done.popleft()
        return card.model_copy(
            update={
                "asks": card.asks + len(held),
                "pictures": card.pictures + sum(len(each.pictures) for each in held),
                "busy_s": card.busy_s + took_s,
                "refused": card.refused + sum(bool(each.refused) for each in held),
                "cameras": (),
            }
        )

    def _beat(self) -> None:
        """Say who works, keep what is in hand, and warn of edges that want another checkpoint."""
        if self.stuck:
            return
        while self._done and self._done[0][0] < monotonic() - _MINUTE_S:
            self._done.popleft()
        card = self.card.model_copy(update={"per_s": sum(n for _, n in list(self._done)) / _MINUTE_S})
        try:
            with self._broker.asked() as client:
                client.set(card_key("worker", card.name), card.model_dump_json(), ex=CARD_S)
                if held := list(self._held):
                    mine: Any = client.xpending_range(
                        self._stream, GROUP, held[0], held[-1], len(held), consumername=card.name
                    )
                    if mine:
                        entries = [each["message_id"] for each in mine]
                        client.xclaim(self._stream, GROUP, card.name, 0, entries, justid=True)
            others = frozenset(
                f"{each.name} wants {each.captioner} {each.checkpoint[:12]}"
                for each in edges(self._broker)
                if each.checkpoint != card.checkpoint
            )
        except PublisherError:
            return  # the other thread tells, or makes the group anew
        for words in others - self._told:
            logger.warning(
                "edge %s; this worker has %s %s and does nothing for it: start one with that version, "
                "or name the checkpoint on both sides",
                words,
                card.captioner,
                card.checkpoint[:12],
            )
        self._told = others

    def _leave(self) -> None:
        """Nothing is in hand: let the group forget this worker."""
        try:
            with self._broker.asked() as client:
                client.delete(card_key("worker", self.card.name))
                if not client.xpending_range(self._stream, GROUP, "-", "+", 1, consumername=self.card.name):
                    client.xgroup_delconsumer(self._stream, GROUP, self.card.name)
        except (PublisherError, redis.ResponseError) as error:
            logger.info("the server still knows this worker, for a while: %s", redacted(error))
        self._broker.close()
