"""`narrated worker`: takes requests as one of a consumer group, detects, responds."""

import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis import exceptions as refusals

from daemon.workers.messages import (
    GROUP,
    MOST_IMAGES,
    MessageError,
    decode_image,
    encode_refusal,
    encode_response,
    requests_key,
    response_key,
    worker_key,
)
from models.detections import Detections, Detector
from pipeline.loop import Backoff
from pipeline.publisher import RedisServer, ServerAwayError
from pipeline.redaction import redact
from pipeline.sources import Image

HEARTBEAT_S = 10  # time to live of a heartbeat

_RESPONSE_TTL_S = 60  # no client waits longer for a response
_BLOCK_MS = 500
_BACKOFF_S = (0.1, 2.0)
_LONGEST_REASON = 300

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Request:
    id: str
    least: float
    images: list[Image]


class Worker:
    """Detects for clients; keeps no state: a client without a response detects itself.

    The URL is called again where the server refuses the password. `requests` counts those done.
    """

    def __init__(
        self, url: Callable[[], str], checkpoint: str, detector: Detector, *, batch: int = 1
    ) -> None:
        self.requests, self._backoff = 0, Backoff("redis", *_BACKOFF_S)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._server = RedisServer(url, text=False)
        self._checkpoint, self._stream = checkpoint, requests_key(checkpoint)
        self._detector, self._batch = detector, batch

    @property
    def away(self) -> str:
        return self._backoff.reason

    def run(self, stop: threading.Event, progress: Callable[[], None] = lambda: None) -> None:
        """Serve requests until `stop`, and finish those in hand; raises `PublisherError`."""
        try:
            while not stop.is_set():
                progress()
                try:
                    self._turn()
                    self._backoff.reset()
                except ServerAwayError as error:
                    stop.wait(self._backoff.next_s(str(error)))
        finally:
            self._server.close()

    def _turn(self) -> None:
        heartbeat = {"name": self.name, "checkpoint": self._checkpoint, "requests": self.requests}
        with self._server.client() as client:
            client.set(worker_key(self.name), json.dumps(heartbeat), ex=HEARTBEAT_S)
            entries = self._read(client)
        if not entries:
            return
        responses = dict(self._respond(entries))
        self.requests += len(responses)
        with self._server.client() as client:
            pipeline = client.pipeline(transaction=False)
            for request, data in responses.items():
                pipeline.rpush(response_key(request), data)
                pipeline.expire(response_key(request), _RESPONSE_TTL_S)
            pipeline.xdel(self._stream, *(entry for entry, _ in entries))
            pipeline.execute()

    def _read(self, client: Redis) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Requests that no other worker has taken; they are not delivered again."""
        streams: Any = {self._stream: ">"}
        try:
            new: Any = client.xreadgroup(
                GROUP, self.name, streams, count=self._batch, block=_BLOCK_MS, noack=True
            )
        except refusals.ResponseError as error:
            if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
                raise
            try:  # at the start, or the server was flushed
                client.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
            except refusals.ResponseError as refusal:
                if "BUSYGROUP" not in str(refusal):
                    raise
            return []
        return list(new[0][1]) if new else []

    def _respond(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> Iterator[tuple[str, bytes]]:
        requests = []
        for _, fields in entries:
            name = fields.pop(b"id", b"").decode(errors="replace")
            try:
                requests.append(_read_request(name, fields))
            except (MessageError, ValueError) as error:
                logger.warning("request refused: %s", error)
                yield name, encode_refusal(str(error))
        for least in {each.least for each in requests}:
            batch = [each for each in requests if each.least == least]
            for request, result in zip(batch, self._detect(batch), strict=True):
                yield (
                    request.id,
                    encode_refusal(result) if isinstance(result, str) else encode_response(result),
                )

    def _detect(self, requests: list[_Request]) -> list[list[Detections] | str]:
        """Detections of each request; one that fails alone gets the reason."""
        if not requests:
            return []
        images = [image for each in requests for image in each.images]
        try:
            detections = iter(self._detector.detect(images, requests[0].least))
            return [[next(detections) for _ in each.images] for each in requests]
        except Exception as error:  # noqa: BLE001 - whatever happens, the client must hear of it
            reason = f"{type(error).__name__}: {redact(error)[:_LONGEST_REASON]}"
        # Outside of the handler: the error would hold the memory that must be freed first.
        if len(requests) > 1:
            half = len(requests) // 2
            return self._detect(requests[:half]) + self._detect(requests[half:])
        logger.warning("request failed: %s", reason)
        return [reason]


def _read_request(name: str, fields: dict[bytes, bytes]) -> _Request:
    least = float(fields.pop(b"least", b"nan"))
    if not 0 <= least <= 1:
        raise MessageError(f"the least score is {least}")
    if not 0 < len(fields) <= MOST_IMAGES:
        raise MessageError(f"a request has {len(fields)} images, 1 to {MOST_IMAGES} are allowed")
    return _Request(name, least, [decode_image(fields.get(b"%d" % n, b"")) for n in range(len(fields))])


def living_workers(url: Callable[[], str]) -> list[dict[str, Any]]:
    """Heartbeats of the workers: name, checkpoint, requests; raises `PublisherError`."""
    server = RedisServer(url)
    try:
        with server.client() as client:
            keys = sorted(client.scan_iter(match=worker_key("*"), count=1000))
            texts: Any = client.mget(keys) if keys else []
        return [json.loads(text) for text in texts if text]
    finally:
        server.close()
