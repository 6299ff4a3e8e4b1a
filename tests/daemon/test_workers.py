"""Workers detect for clients through a real Redis; whatever becomes of them, the detections are the same."""

import re
import signal
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
import redis
from doc_pages import page
from embedded_redis import EmbeddedServer
from mean_detector import DEADLY, FAULTY, Mean
from waiting import LIMIT_S, until

from daemon import workers
from daemon.workers import (
    LONGEST_SIDE,
    MessageError,
    RemoteDetector,
    Worker,
    decode_image,
    decode_response,
    encode_image,
    encode_response,
    living_workers,
    requests_key,
    response_key,
    use_workers,
)
from models import load_captioner
from models.detections import Detections
from models.grounded.grounded import Grounded
from pipeline.sources import Image

CHECKPOINT, OTHER = "a" * 64, "b" * 64


def images(count: int, first: int = 0) -> list[Image]:
    chance = np.random.default_rng(count)
    made = [chance.integers(0, 256, (64, 96, 3), np.uint8) for _ in range(count)]
    for image in made:
        image[0, 0, 0] = first
    return made


def same(found: Sequence[Detections], wanted: Sequence[Detections]) -> bool:
    return len(found) == len(wanted) and all(
        np.array_equal(getattr(a, part), getattr(b, part))
        for a, b in zip(found, wanted, strict=True)
        for part in ("box", "score", "label", "feature")
    )


@contextmanager
def worker(url: str, detector: Any = None, checkpoint: str = CHECKPOINT, **more: Any) -> Iterator[Worker]:
    """A worker in a thread, once it lives."""
    stop, running = threading.Event(), Worker(lambda: url, checkpoint, detector or Mean(deadly=True), **more)
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    try:
        until(lambda: running.name in [each["name"] for each in living_workers(lambda: url)])
        yield running
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def client(server, monkeypatch) -> Iterator[RemoteDetector]:
    monkeypatch.setattr(workers, "BACKOFF_S", (0.05, 0.1))
    monkeypatch.setattr(workers, "RESPONSE_S", 60.0)
    made = RemoteDetector(lambda: server.url, CHECKPOINT, Mean())
    yield made
    made.close()


def test_without_a_worker_the_client_detects_and_finds_one_that_starts(server, client, monkeypatch, caplog):
    monkeypatch.setattr(workers, "RESPONSE_S", 0.2)
    asked, right = images(3), Mean().detect(images(3))
    with worker(server.url, checkpoint=OTHER) as strange:
        for _ in range(3):
            assert same(client.detect(asked), right)
        assert client.counts["remote"] == strange.requests == 0
    assert caplog.text.count("start `narrated worker`") == 1
    monkeypatch.setattr(workers, "RESPONSE_S", 60.0)
    with worker(server.url):
        until(lambda: same(client.detect(asked), right) and client.counts["remote"])
    assert "workers: works again" in caplog.text


def test_a_worker_that_is_killed_costs_nothing(server, client, forked, monkeypatch):
    process = forked(first=f"from mean_detector import work; work({server.url!r}, {CHECKPOINT!r})")
    until(lambda: living_workers(lambda: server.url))
    assert same(client.detect(images(2)), Mean().detect(images(2)))
    monkeypatch.setattr(workers, "RESPONSE_S", 0.5)
    deadly = images(2, DEADLY)
    until(lambda: same(client.detect(deadly), Mean().detect(deadly)) and process.poll())
    assert process.returncode == -signal.SIGKILL
    assert client.counts["remote"] == 2
    monkeypatch.setattr(workers, "RESPONSE_S", 60.0)
    with worker(server.url) as other:
        until(lambda: client.detect(images(1)) and client.counts["remote"] > 2)
        assert other.requests == 1  # what killed the other one is not delivered again


def test_redis_is_killed_flushed_and_returns(server, client, monkeypatch):
    monkeypatch.setattr(workers, "RESPONSE_S", 1.0)
    asked, right = images(2), Mean().detect(images(2))
    with worker(server.url) as running:
        assert same(client.detect(asked), right)
        server.stop(signal.SIGKILL)
        assert same(client.detect(asked), right)
        assert client.away
        server.start()
        until(lambda: not running.away and same(client.detect(asked), right) and not client.away)
        with redis.Redis.from_url(server.url) as look:
            look.flushall()
        until(lambda: same(client.detect(asked), right) and not client.away)


def test_a_request_that_fails_is_refused_and_fails_alone(server, client, caplog):
    faulty = images(4) + images(4, FAULTY) + images(4)
    with worker(server.url, batch=16) as running:
        assert same(client.detect(faulty), Mean().detect(faulty))
        assert running.requests == 3
    assert client.counts == {"remote": 8, "local": 4}
    assert "ValueError: this image is faulty" in caplog.text


def png(width: int, height: int, rows: int) -> bytes:
    """A PNG whose header says so, with so many grey rows."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(bytes((width + 1) * rows))),
        (b"IEND", b""),
    ):
        crc = struct.pack(">I", zlib.crc32(kind + data))
        whole += struct.pack(">I", len(data)) + kind + data + crc
    return whole


@pytest.mark.parametrize(
    "fields",
    [
        {"0": (16_384, 16_384, 16_384)},
        {"0": (LONGEST_SIDE, LONGEST_SIDE, 0)},
        {"0": b"no image"},
        {"0": b""},
        {},
        {"7": encode_image(images(1)[0])},
        {str(n): b"" for n in range(65)},
        {"0": encode_image(images(1)[0]), "least": "nan"},
        {"0": encode_image(images(1)[0]), "least": "much"},
    ],
)
def test_a_bad_request_is_refused_and_ends_no_worker(server, fields):
    fields = {name: png(*value) if isinstance(value, tuple) else value for name, value in fields.items()}
    with redis.Redis.from_url(server.url) as client, worker(server.url) as running:
        for more in ({}, {"id": "bad"}):
            client.xadd(requests_key(CHECKPOINT), {"least": "0.05", **fields, **more})
        _, refusal = client.blpop([response_key("bad")], timeout=LIMIT_S)
        assert refusal.startswith(b"-")
        with pytest.raises(MessageError, match=r"\w"):
            decode_response(refusal, 1)
        good = images(1)
        client.xadd(requests_key(CHECKPOINT), {"id": "good", "least": "0.05", "0": encode_image(good[0])})
        _, data = client.blpop([response_key("good")], timeout=LIMIT_S)
        assert same(decode_response(data, 1), Mean().detect(good))
        assert running.requests >= 2


def test_images_travel_without_loss_and_bad_ones_and_responses_are_seen(monkeypatch):
    for image in images(3):
        assert np.array_equal(decode_image(encode_image(image)), image)
    data = encode_response(Mean().detect(images(2)))
    assert len(decode_response(data, 2)) == 2
    for bad in (b"", b"+", data[:-1], data[:40], b"-no", encode_response([])):
        with pytest.raises(MessageError):
            decode_response(bad, 2)
    good = Mean().detect(images(1))[0]
    for changed in ({"box": good.box * np.nan}, {"box": good.box * 9}, {"box": good.box * 0}):
        with pytest.raises(MessageError, match="no detector"):
            decode_response(encode_response([replace(good, **changed)]), 1)
    with pytest.raises(MessageError, match="no detector"):
        decode_response(encode_response([replace(good, feature=good.feature * np.inf)]), 1)

    def fail(*_: object) -> None:
        raise cv2.error("Failed to allocate 50331648 bytes")

    image = encode_image(image)
    monkeypatch.setattr(cv2, "imdecode", fail)
    with pytest.raises(MessageError, match="Failed to allocate"):
        decode_image(image)


def test_the_user_of_the_page_may_do_what_a_worker_must(server, monkeypatch):
    monkeypatch.setattr(workers, "RESPONSE_S", 60.0)
    path = server.url.removeprefix("unix://")
    with redis.Redis(unix_socket_path=path) as admin:
        text = page("operations.md") + page("workers.md")
        for user, rules in re.findall(r"^    ACL SETUSER (\w+) (.*)$", text, re.MULTILINE):
            admin.execute_command("ACL", "SETUSER", user, *rules.split())
    urls = {user: f"unix://{user}:SECRET@{path}" for user in ("narrated", "worker")}
    client = RemoteDetector(lambda: urls["narrated"], CHECKPOINT, Mean())
    stop, running = threading.Event(), Worker(lambda: urls["worker"], CHECKPOINT, Mean())
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    try:
        until(lambda: living_workers(lambda: urls["narrated"]))
        assert same(client.detect(images(2)), Mean().detect(images(2)))
        assert client.counts == {"remote": 2}
    finally:
        stop.set()
        thread.join()
        client.close()


def test_workers_share_what_a_client_asks_for_and_a_captioner_sees_the_same(server, client):
    asked = images(30)
    with worker(server.url) as one, worker(server.url) as two, redis.Redis.from_url(server.url) as look:
        assert same(client.detect(asked, 0.2), Mean().detect(asked, 0.2))
        assert client.detect([]) == []
        until(lambda: one.requests + two.requests == 8)
        assert client.counts == {"remote": 30}
        assert look.xlen(requests_key(CHECKPOINT)) == 0
    captioner, far = load_captioner(), load_captioner()
    assert isinstance(captioner, Grounded)
    pictures = images(2)
    wanted = captioner.see(pictures)
    use_workers(captioner, lambda: server.url)
    assert isinstance(captioner.remote, RemoteDetector)
    with worker(server.url, far, captioner.sha256):
        assert same(captioner.see(pictures), wanted)
    assert captioner.remote.counts == {"remote": 2}
    captioner.remote.close()
