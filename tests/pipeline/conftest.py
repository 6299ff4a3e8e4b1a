"""Footage that the tests make themselves, and what watches a real RTSP server."""

import contextlib
import hashlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.packet import Packet
from rtsp_camera import RtspRelay
from waiting import LIMIT_S

from pipeline.sources import Frame, Source, SourceOptions
from pipeline.sources.rtsp import open_camera


def picture(index: int, width: int = 320, height: int = 240) -> np.ndarray:
    """RGB gradient with a block that moves: every frame is another."""
    rows, columns = np.mgrid[0:height, 0:width]
    rgb = np.stack([columns * 255 // width, rows * 255 // height, np.full_like(rows, 90)], axis=-1)
    x = (index * 4) % (width - 40)
    rgb[100:140, x : x + 40] = (250, 250, 40)
    return rgb.astype(np.uint8)


@pytest.fixture
def make_clip(tmp_path) -> Callable[..., Path]:
    """Writes a clip under the test's folder; `stamps` are times of frames in units of `time_base`."""

    def make(
        name: str = "clip.mp4",
        stamps: Sequence[int] = range(50),
        *,
        time_base: Fraction = Fraction(1, 10),
        codec: str = "libx264",
        pix_fmt: str = "yuv420p",
        size: tuple[int, int] = (320, 240),
        gop: int = 10,
        b_frames: int = 0,
        rotation: int = 0,
        container_options: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w", options=container_options or {}) as container:
            container.metadata.update(metadata or {})
            stream = container.add_stream(codec, rate=10)
            stream.width, stream.height, stream.pix_fmt = *size, pix_fmt
            stream.codec_context.time_base = time_base
            stream.time_base = time_base
            stream.codec_context.thread_count = 1
            if rotation:
                stream.set_display_rotation(rotation)
            if codec == "libx264":
                stream.options = {"preset": "ultrafast", "bf": str(b_frames), "g": str(gop)}
            for index, stamp in enumerate(stamps):
                frame = av.VideoFrame.from_ndarray(picture(index, *size), format="rgb24")
                frame.pts, frame.time_base = stamp, time_base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path

    return make


@pytest.fixture
def rtsp_relay() -> Iterator[Callable[..., RtspRelay]]:
    """Puts a relay with faults in front of a server; closes it after the test."""
    with contextlib.ExitStack() as relays:
        yield lambda server, seed=1: relays.enter_context(RtspRelay(server.port, seed))


class Watch:
    """Iterates a source in a thread, as the daemon does; the list of frames grows as they come."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.frames: list[Frame] = []
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _collect(self) -> None:
        for frame in self.source:
            self.frames.append(frame)

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, f"not within {LIMIT_S} s; {self.source.report}"
            time.sleep(0.02)

    def more(self, count: int) -> list[Frame]:
        """The next frames."""
        have = len(self.frames)
        self.until(lambda: len(self.frames) >= have + count)
        return self.frames[have:]

    def end(self) -> None:
        """Closes the source: its iteration ends before any time-out of libav's."""
        self.source.close()
        self.thread.join(30.0)
        assert not self.thread.is_alive()


@pytest.fixture
def watch() -> Iterator[Callable[[Source], Watch]]:
    """Watches sources, and closes them after the test."""
    with contextlib.ExitStack() as sources:
        yield lambda source: Watch(sources.enter_context(source))


class Clean:
    """Everything that a server sends, decoded from its first packet on: a hash of every picture.

    Packets are only kept while they come: a server leaves out some for whoever is slow.
    """

    def __init__(self, url: str) -> None:
        self._hashes: set[bytes] = set()
        self._packets: queue.SimpleQueue[Packet] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._container = open_camera(url, SourceOptions())
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for packet in self._container.demux(video=0):
            self._packets.put(packet)
            if self._stopped.is_set():
                break

    @staticmethod
    def _hash(image: np.ndarray) -> bytes:
        return hashlib.sha256(image.tobytes()).digest()

    def holds(self, frames: Sequence[Frame]) -> bool:
        while not self._packets.empty():
            for picture in self._packets.get().decode():
                self._hashes.add(self._hash(picture.to_ndarray(format="rgb24")))
        return {self._hash(frame.image) for frame in frames} <= self._hashes

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._container.close()


@pytest.fixture
def clean() -> Iterator[Callable[[str], Clean]]:
    """Decodes all of a stream beside what is tested."""
    with contextlib.ExitStack() as streams:
        yield lambda url: streams.enter_context(contextlib.closing(Clean(url)))
