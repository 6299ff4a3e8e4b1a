"""The forwarder in a test's own process, and what stands at both of its ends."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import narrations
import paho.mqtt.client as mqtt
from running_daemon import unused_port
from waiting import LIMIT_S, until

from daemon.config.configuration import load_configuration
from daemon.forward import forwarder
from daemon.forward.forwarder import Sender, check
from daemon.forward.target import Message
from pipeline.journal import Journal
from pipeline.loop import Heartbeats
from pipeline.publisher import Delivery, RedisServer, stream_key
from pipeline.record import ChainEnd, Evidence, build_record


@contextmanager
def forwarding(path: Path, *, from_start: bool = False) -> Iterator[dict[str, Sender]]:
    """The forwarder in this process, until the block ends."""
    configuration = load_configuration(path)
    check(configuration)
    with forwarder.forwarding(configuration, Heartbeats(), from_start=from_start) as senders:
        # Until each target is in the groups of all streams.
        until(lambda: all(s._queue._streams or not s.loop.alive for s in senders.values()))
        yield senders


def sent(running: dict[str, Sender], target: str, camera: str = "yard") -> int:
    """Number of the last record that the target was sent."""
    return int(running[target]._queue._sent.get(stream_key(camera), ("", 0))[1])


def message(picture: Path | None = None, **changed: Any) -> Message:
    """A narration as it is given to a target."""
    record = build_record(narrations.narration(**changed), ChainEnd())
    return Message(record, record.sentences, picture)


class Camera:
    """Journals and publishes as the daemon does: journal first, then the stream."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        self._journal, self._server = Journal(folder, name, fsync=False), RedisServer(url, 2)
        self._delivery = Delivery(self._journal, self._server)
        self._name, self._count = name, 0

    def narrate(self, count: int = 1, evidence: Evidence | None = None, **changed: Any) -> list[str]:
        """Publish that many narrations, and what a server has lost; their ids."""
        ids = []
        for _ in range(count):
            self._count += 1
            narration = narrations.narration(self._count, self._name, **changed)
            ids.append(self._journal.append(narration, evidence=evidence).id)
        self._delivery.drain(threading.Event())
        return ids

    def close(self) -> None:
        self._server.close()
        self._journal.close()


class Receiver:
    """A web server: keeps what it is sent, and answers with `status`; it can go and come back."""

    def __init__(self) -> None:
        self.port, self.status, self.delay_s, self.location = unused_port(), 204, 0.0, ""
        self.requests: list[tuple[str, bytes]] = []  # path and body
        self.taken: list[dict[str, Any]] = []
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/s3cr3tpath"

    @property
    def ids(self) -> list[str]:
        """Of the records that were taken."""
        return [json.loads(body["message"])["id"] for body in self.taken]

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, body))
                time.sleep(receiver.delay_s)
                self.send_response(receiver.status)
                self.send_header("location", receiver.location)
                self.send_header("content-length", "0")
                self.end_headers()
                if receiver.status < 300 and body.startswith(b"{"):
                    receiver.taken.append(json.loads(body))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Broker:
    """Debian's mosquitto on a port of its own; it forgets everything when it stops."""

    def __init__(self, program: str, folder: Path, password_file: Path | None = None) -> None:
        self.port, self._program, self._folder = unused_port(), program, folder
        allowed = f"password_file {password_file}\n" if password_file else "allow_anonymous true\n"
        self.settings = folder / "mosquitto.conf"
        self.settings.write_text(f"listener {self.port} 127.0.0.1\n{allowed}user root\n")
        self.start()

    def start(self) -> None:
        command = [self._program, "-c", self.settings]
        with (self._folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self.port)) == 0

        until(listens)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Listener:
    """A subscriber, as Home Assistant is; keeps what it receives."""

    def __init__(self, port: int, user: str = "", password: str = "") -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        if user:
            self._client.username_pw_set(user, password)
        subscribed = threading.Event()
        self._client.on_message = lambda _c, _d, m: self.received.append((m.topic, m.payload, m.retain))
        self._client.on_connect = lambda *_: self._client.subscribe("#", qos=1)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert subscribed.wait(LIMIT_S)

    def on(self, topic: str) -> list[bytes]:
        """The payloads of a topic."""
        return [payload for name, payload, _ in list(self.received) if name == topic]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
