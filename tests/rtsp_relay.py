"""Between a camera and who watches it: loses, delays and forges what passes, packet by packet.

This kernel may lack netem and tc's filters, and interleaved RTSP is RTP packets in a TCP stream: those are
taken out here, so that the decoder sees the very gaps that a network would have left.
"""

import contextlib
import random
import socket
import struct
import threading
from typing import Self

RTP, RTCP = 0, 1
_SENDER_REPORT = 200


class RtspRelay:
    """Listens on a port of its own and passes everything on to the server; usable as a context manager."""

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
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), server.makefile("rb") as stream:
            while start := stream.read(1):
                if start == b"$":
                    channel, length = struct.unpack(">BH", _exactly(stream, 3))
                    packet = self._forged(channel, bytearray(_exactly(stream, length)))
                    if packet is not None:
                        client.sendall(start + struct.pack(">BH", channel, len(packet)) + packet)
                else:
                    client.sendall(start + _answer(stream))
        with contextlib.suppress(OSError):
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
