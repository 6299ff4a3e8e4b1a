"""Work shared out: pictures go to workers over a Redis group, and detections come back (ADR 0019)."""

import json
import logging
import os
import secrets
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any

import cv2
import numpy as np
from redis import Redis
from redis import exceptions as refusals
from safetensors import SafetensorError
from safetensors.numpy import load, save

from models.captioner import Captioner
from models.detections import LEAST, Detections, Detector
from models.families import OBJECTS
from pipeline.loop import Backoff
from pipeline.publisher import PublisherError, RedisServer, ServerAwayError
from pipeline.redaction import redact
from pipeline.sources import Image

GROUP = "workers"
MOST_IMAGES = 64  # images in one request
LONGEST_SIDE = 4096  # pixels of an image's side: a PNG of 69 bytes may claim to be gigabytes

RESPONSE_S = 5.0  # requests without a response for so long are taken back and detected here
IMAGES_PER_REQUEST = 4  # more images are shared among workers
BACKOFF_S = (1.0, 30.0)  # first and longest time without asking after none has answered
HEARTBEAT_S = 10  # time to live of a heartbeat

_ROOT = "narrated:{workers}:2"  # of all keys, with the messages' version
_PARTS = ("box", "score", "label", "feature")
_LOSSLESS = (cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE)
_SIZE = slice(16, 24)  # of a PNG's header chunk, which comes first

_MEANWHILE = "; this process detects; start `narrated worker` with the same version and checkpoint"
_TIMEOUT_S = 2 * RESPONSE_S
_MOST_WAITING = 512  # requests
_RESPONSE_TTL_S = 60  # no client waits longer for a response
_BLOCK_MS = 500
_SERVER_BACKOFF_S = (0.1, 2.0)
_LONGEST_REASON = 300

logger = logging.getLogger(__name__)


class MessageError(ValueError):
    """A message is malformed, or refused; says why."""


def requests_key(checkpoint: str) -> str:
    """Stream of the requests for one checkpoint (sha256, hex): workers with another never see them."""
    return f"{_ROOT}:requests:{checkpoint[:16]}"


def response_key(request: str) -> str:
    """List that gets the response to a request."""
    return f"{_ROOT}:response:{request}"


def worker_key(name: str) -> str:
    """A worker's heartbeat, a JSON object; gone soon after its end."""
    return f"{_ROOT}:worker:{name}"


def encode_image(image: Image) -> bytes:
    done, data = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), _LOSSLESS)
    if not done:
        raise MessageError(f"an image of shape {image.shape} cannot be encoded")
    return data.tobytes()


def decode_image(data: bytes) -> Image:
    """The image in a PNG of this room; MessageError where it is another, or larger than `LONGEST_SIDE`."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or len(data) < _SIZE.stop:
        raise MessageError("an image is not a PNG")
    width, height = struct.unpack(">II", data[_SIZE])
    if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
        raise MessageError(f"an image has {width} x {height} pixels, {LONGEST_SIDE} a side are allowed")
    try:
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise MessageError(f"an image cannot be decoded: {error}") from None
    if bgr is None:
        raise MessageError("an image is damaged")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def encode_response(detections: Sequence[Detections]) -> bytes:
    arrays = {
        f"{number}.{part}": np.ascontiguousarray(getattr(each, part))
        for number, each in enumerate(detections)
        for part in _PARTS
    }
    return b"+" + save(arrays)


def encode_refusal(reason: str) -> bytes:
    return b"-" + reason.encode()


def decode_response(data: bytes, images: int) -> list[Detections]:
    """Detections of all images of a request; MessageError where the worker refused, or it is malformed."""
    if data[:1] != b"+":
        raise MessageError(data[1:].decode(errors="replace") or "the response is empty")
    try:
        arrays = load(data[1:])
        detections = [
            Detections(*(arrays[f"{number}.{part}"] for part in _PARTS)) for number in range(images)
        ]
    except (SafetensorError, KeyError, ValueError) as error:
        raise MessageError(f"the response is malformed: {error!r}") from None
    for each in detections:
        count = len(each.box) if each.box.ndim else -1
        shapes = [tuple(getattr(each, part).shape) for part in _PARTS[:3]]
        fits = shapes == [(count, 4), (count,), (count, len(OBJECTS))] and each.feature.shape[:1] == (count,)
        if not fits or any(getattr(each, part).dtype != np.float32 for part in _PARTS):
            raise MessageError(f"the response has arrays of shapes {shapes}")
        shares = all(((part >= 0) & (part <= 1)).all() for part in (each.box, each.score, each.label))
        if not (shares and (each.box[:, 2:] > 0).all() and np.isfinite(each.feature).all()):
            raise MessageError("the response has numbers that no detector gives")
    return detections


def use_workers(captioner: Captioner, url: Callable[[], str]) -> None:
    """Let workers detect for a captioner that has a detector; others are left alone."""
    from models.grounded.grounded import Grounded  # noqa: PLC0415 - who looks for workers has none

    if isinstance(captioner, Grounded):
        captioner.remote = RemoteDetector(url, captioner.sha256, captioner)


class RemoteDetector:
    """Detects by workers; what they do not answer in time, or refuse, it leaves to the local detector.

    Both have the same checkpoint, sha256 (hex), so that it does not matter who detects. The URL is called
    again where the server refuses the password. `counts` has images by who detected, remote or local; `away`
    why no worker is asked now, empty while workers answer.
    """

    def __init__(self, url: Callable[[], str], checkpoint: str, local: Detector) -> None:
        self.counts: Counter[str] = Counter()
        self._server = RedisServer(url, _TIMEOUT_S, text=False)
        self._stream, self._local = requests_key(checkpoint), local
        self._encoders = ThreadPoolExecutor(os.cpu_count(), "encoding")
        self._backoff, self._ask_at = Backoff("workers", *BACKOFF_S, warn_every_s=600.0), float("-inf")

    @property
    def away(self) -> str:
        return self._backoff.reason

    def detect(self, images: Sequence[Image], least: float = LEAST) -> list[Detections]:
        if not images:
            return []
        responses: dict[int, list[Detections]] = {}
        chunks = [images[at : at + IMAGES_PER_REQUEST] for at in range(0, len(images), IMAGES_PER_REQUEST)]
        if monotonic() >= self._ask_at:
            reason = f"no worker with this checkpoint answers within {RESPONSE_S:g} s"
            try:
                responses = self._request(chunks, least)
            except PublisherError as error:
                reason = str(error)
            if responses:
                self._backoff.reset()
            else:
                self._ask_at = monotonic() + self._backoff.next_s(reason + _MEANWHILE)
        detections: list[Detections] = []
        for number, chunk in enumerate(chunks):
            remote = responses.get(number)
            self.counts["local" if remote is None else "remote"] += len(chunk)
            detections += self._local.detect(chunk, least) if remote is None else remote
        return detections

    def close(self) -> None:
        self._encoders.shutdown(wait=False)
        self._server.close()

    def _request(self, chunks: list[Sequence[Image]], least: float) -> dict[int, list[Detections]]:
        """Responses by the number of the chunk; one that does not come, or is a refusal, is absent."""
        encoded = list(self._encoders.map(encode_image, [image for chunk in chunks for image in chunk]))
        parts = iter(encoded)
        names = {f"{socket.gethostname()}-{secrets.token_hex(8)}": n for n in range(len(chunks))}
        with self._server.client() as client:
            pipeline = client.pipeline(transaction=False)
            for name, number in names.items():
                fields: Any = {str(n): next(parts) for n in range(len(chunks[number]))}
                fields |= {"id": name, "least": least}
                pipeline.xadd(self._stream, fields, maxlen=_MOST_WAITING, approximate=False)
            entries = dict(zip(names, pipeline.execute(), strict=True))
            responses = {}
            for name, data in self._responses(client, names):
                del entries[name]
                try:
                    responses[names[name]] = decode_response(data, len(chunks[names[name]]))
                except MessageError as error:
                    logger.warning("workers: %s; detecting here instead", error)
            if entries:
                client.xdel(self._stream, *entries.values())
        return responses

    def _responses(self, client: Any, names: dict[str, int]) -> Iterator[tuple[str, bytes]]:
        """Names of requests with their responses, as they come; each gives the others more time."""
        waiting = {response_key(name).encode(): name for name in names}
        while waiting:
            answer = client.blpop(list(waiting), timeout=RESPONSE_S - 1e-3)
            if answer is None:
                return
            key, data = answer
            yield waiting.pop(key), data


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
        self.requests, self._backoff = 0, Backoff("redis", *_SERVER_BACKOFF_S)
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
    with closing(RedisServer(url)) as server, server.client() as client:
        keys = sorted(client.scan_iter(match=worker_key("*"), count=1000))
        texts: Any = client.mget(keys) if keys else []
    return [json.loads(text) for text in texts if text]
