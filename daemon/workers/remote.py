"""A detector whose work is done by workers: requests go out over a Redis group, detections come back."""

import logging
import os
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from daemon.workers.messages import MessageError, decode_response, encode_image, requests_key, response_key
from models.captioner import Captioner
from models.detections import LEAST, Detections, Detector
from models.grounded.grounded import Grounded
from pipeline.loop import Backoff
from pipeline.publisher import PublisherError, RedisServer
from pipeline.sources import Image

RESPONSE_S = 5.0  # requests without a response for so long are taken back and detected here
IMAGES_PER_REQUEST = 4  # more images are shared among workers

BACKOFF_S = (1.0, 30.0)  # first and longest time without asking after none has answered
_MEANWHILE = "; this process detects; start `narrated worker` with the same version and checkpoint"
_TIMEOUT_S = 2 * RESPONSE_S
_MOST_WAITING = 512

logger = logging.getLogger(__name__)


def use_workers(captioner: Captioner, url: Callable[[], str]) -> None:
    """Let workers detect for a captioner that has a detector; others are left alone."""
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
