"""A camera that tests can kill, GStreamer's RTSP server in a process of its own, and what stands before it.

This kernel may lack netem and tc's filters, and interleaved RTSP is RTP packets in a TCP stream: those are
taken out by a relay, so that the decoder sees the very gaps that a network would have left.
"""

import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from running_daemon import unused_port

PYTHON = "/usr/bin/python3"
"""The system's, which has GStreamer."""
RTP, RTCP = 0, 1
_SENDER_REPORT = 200
CHECK = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"


def no_gstreamer() -> str:
    """Why this machine has no such server; empty where it has."""
    found = shutil.which(PYTHON)
    if found and not subprocess.run([found, "-c", CHECK], capture_output=True, check=False).returncode:
        return ""
    return "no GStreamer RTSP server (apt install gir1.2-gst-rtsp-server-1.0 python3-gi)"


class RtspServer:
    """Killed and started again on the same port; it plays H.264 files as /1, /2 and so on."""

    def __init__(self, *credentials: str, port: int = 0, films: Sequence[Path] = ()) -> None:
        self.port, self.credentials, self.films = port or unused_port(), credentials, films
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def url(self, path: str = "stream", user: str = "") -> str:
        return f"rtsp://{user}127.0.0.1:{self.port}/{path}"

    def start(self) -> None:
        script = Path(__file__).with_name("rtsp_server.py")
        self.process = subprocess.Popen(
            [PYTHON, str(script), str(self.port), *self.credentials],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._expect("ready")
        for number, film in enumerate(self.films, 1):
            self.tell(f"play {film} {number}")

    def tell(self, command: str) -> None:
        """A command of `rtsp_server.py`; returns when it is carried out."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self.process.stdout.readline().strip() == word

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()
            self.process = None


class RtspRelay:
    """Loses, delays and forges what a camera sends, packet by packet, on a port of its own."""

    def __init__(self, port: int, seed: int = 1) -> None:
        self.loss, self.lost = 0.0, 0  # share of the RTP packets that are lost, and how many were
        self.stamp_shift = 0  # added to the RTP time stamps, in units of 1/90000 s
        self.clock_shift_s = 0.0  # added to the camera's clock in its sender reports
        self._random, self._target = random.Random(seed), port
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str = "stream") -> str:
        return f"rtsp://127.0.0.1:{self.port}/{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError, EOFError), server.makefile("rb") as stream:
            while start := stream.read(1):
                if start == b"$":
                    channel, length = struct.unpack(">BH", _exactly(stream, 3))
                    packet = self._forged(channel, bytearray(_exactly(stream, length)))
                    if packet is not None:
                        client.sendall(start + struct.pack(">BH", channel, len(packet)) + packet)
                else:
                    client.sendall(start + _answer(stream))
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _forged(self, channel: int, packet: bytearray) -> bytearray | None:
        if channel == RTP:
            if self._random.random() < self.loss:
                self.lost += 1
                return None
            stamp = (struct.unpack_from(">I", packet, 4)[0] + self.stamp_shift) % 2**32
            struct.pack_into(">I", packet, 4, stamp)
        elif channel == RTCP and packet[1] == _SENDER_REPORT:
            time = struct.unpack_from(">Q", packet, 8)[0] + int(self.clock_shift_s * 2**32)
            struct.pack_into(">Q", packet, 8, time)
        return packet


def _exactly(stream, count: int) -> bytes:
    if len(read := stream.read(count)) < count:
        raise EOFError
    return read


def _answer(stream) -> bytes:
    """The rest of an RTSP answer: its header lines, and the body they announce."""
    header = b""
    while not header.endswith(b"\r\n\r\n"):
        header += _exactly(stream, 1)
    body = 0
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            body = int(value)
    return header + _exactly(stream, body).replace(b"s=Session", b"s=S\xfcdt\xfcr1")  # a name in Latin-1
