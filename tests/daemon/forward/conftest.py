"""Real servers at both ends: Redis with a real publisher, brokers, web servers, and the forwarder between."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from embedded_redis import EmbeddedServer
from forwarding_here import Broker, Camera, Listener, Receiver

from daemon.forward import forwarder


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch) -> None:
    """In the test's own process, new streams are looked for more often, and waiting is short."""
    monkeypatch.setattr(forwarder, "_SCAN_EVERY_S", 0.1)
    monkeypatch.setattr(forwarder, "_BLOCK_MS", 50)
    monkeypatch.setattr(forwarder, "FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr(forwarder, "LONGEST_BACKOFF_S", 0.05)


@pytest.fixture
def redis_server() -> Iterator[EmbeddedServer]:
    """A server that forgets nothing when it is killed."""
    with EmbeddedServer(settings={"appendonly": "yes", "appendfsync": "always"}) as running:
        yield running


@pytest.fixture
def camera(tmp_path, redis_server) -> Iterator[Callable[..., Camera]]:
    """Makes cameras of the configuration's state folder."""
    made: list[Camera] = []

    def make(name: str = "yard") -> Camera:
        made.append(Camera(tmp_path / "state" / "journal", name, redis_server.url))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.stop()


@pytest.fixture
def configure(tmp_path, redis_server) -> Callable[[str], Path]:
    """Writes a configuration whose section `forward` holds these lines."""

    def write(targets: str, more: str = "") -> Path:
        path = tmp_path / "narrated.yaml"
        path.write_text(
            f"version: 1\nstate: {tmp_path}/state\nredis: {{url: '{redis_server.url}'}}\n"
            f"cameras:\n  yard: {{url: 'rtsp://10.0.0.5/s'}}\ntimezone: UTC\n{more}forward:\n{targets}"
        )
        return path

    return write


@pytest.fixture(scope="session")
def mosquitto() -> str:
    """Where Debian puts it, or the path finds it."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("mosquitto is not installed (apt install mosquitto)")
    return found


@pytest.fixture
def broker(mosquitto, tmp_path) -> Iterator[Broker]:
    running = Broker(mosquitto, tmp_path)
    yield running
    running.stop()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    made: list[Listener] = []

    def make(port: int, *credentials: str) -> Listener:
        made.append(Listener(port, *credentials))
        return made[-1]

    yield make
    for each in made:
        each.close()
