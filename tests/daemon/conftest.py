"""A small trained captioner with the real encoder, footage made on the spot, a real server."""

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from embedded_redis import EmbeddedServer
from encoded_footage import encode
from forked_commands import Forked, forker
from rectangles import see_rectangles
from running_daemon import unused_port
from waiting import LIMIT_S

import models
from daemon import cli
from daemon.config import secrets
from models.captioner import Captioner
from models.encoders import ENCODERS
from models.papers.captioner import PairBatch
from models.papers.ddla import DDLA
from models.papers.vocabulary import Vocabulary

APPEARED, GONE = "A box has appeared.", "The box is gone."
Visit = tuple[float, float, tuple[int, int, int, int]]
"""From second, to second, rectangle ``(x, y, width, height)`` in pixels of 320x240."""


@pytest.fixture(scope="session", autouse=True)
def one_encoder() -> Iterator[None]:
    """Frozen weights, read once: else each command of a test reads them for its captioner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODERS, "efficientnet_lite0", cache(ENCODERS["efficientnet_lite0"]))
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """DDLA that has learned two sentences: a bright box has come, or it has gone; made once for all."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    path = folder / "tiny.safetensors"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _teach(path)
    return path


def _teach(path: Path) -> None:
    torch.manual_seed(1)
    vocabulary = Vocabulary.build([APPEARED, GONE], min_count=1)
    encoder = ENCODERS["efficientnet_lite0"]()
    captioner = DDLA(vocabulary, encoder, features=32, words=16, hidden=32, attention=16, dropout=0.0)
    pairs, sentences = _lesson(encoder, vocabulary)
    learner = torch.optim.Adam([p for p in captioner.parameters() if p.requires_grad], lr=0.02)
    for _ in range(80):
        learner.zero_grad()
        loss = captioner.loss(pairs, sentences)
        loss.backward()
        learner.step()
    assert loss.item() < 0.1
    captioner.save(path)


def _lesson(encoder: torch.nn.Module, vocabulary: Vocabulary) -> tuple[PairBatch, torch.Tensor]:
    places = [(20, 60, 60, 60), (140, 60, 60, 60), (20, 140, 50, 60), (130, 130, 60, 60)]
    empty = torch.full((len(places), 3, 224, 224), 90, dtype=torch.uint8)
    full, masks = empty.clone(), torch.zeros(len(places), 1, 224, 224, dtype=torch.bool)
    for i, (x, y, w, h) in enumerate(places):
        full[i, :, y : y + h, x : x + w] = 230
        masks[i, 0, y : y + h, x : x + w] = True
    without, with_box = encoder(empty), encoder(full)
    boxes = torch.tensor(places).float().unsqueeze(1) / 224
    batch = PairBatch(
        None,
        None,
        masks.repeat(2, 1, 1, 1),
        boxes.repeat(2, 1, 1),
        masks.float().mean((2, 3)).repeat(2, 1),
        torch.ones(2 * len(places), 1, dtype=torch.bool),
        (torch.cat([without, with_box]), torch.cat([with_box, without])),
    )
    return batch, vocabulary.batch([[APPEARED]] * len(places) + [[GONE]] * len(places))


@pytest.fixture(scope="session")
def captioner(checkpoint) -> Captioner:
    return models.load_captioner(checkpoint)


@pytest.fixture(scope="module")
def seeing() -> Captioner:
    return see_rectangles()


def scene(second: float, visits: Sequence[Visit], size: tuple[int, int] = (320, 240)) -> np.ndarray:
    """RGB picture of a grey room; a bright box stands in it during each visit."""
    width, height = size
    rows, columns = np.mgrid[0:height, 0:width]
    grey = (80 + 20 * ((rows // 24 + columns // 32) % 2)).astype(np.uint8)
    for begin, end, (x, y, w, h) in visits:
        if begin <= second < end:
            grey[y : y + h, x : x + w] = 230
    return np.repeat(grey[..., None], 3, axis=2)


def write_clip(path: Path, visits: Sequence[Visit], seconds: float = 24, rate: int = 5) -> Path:
    """A clip of that scene; 1970, because its container says nothing else."""
    frames = (scene(index / rate, visits) for index in range(round(seconds * rate)))
    return encode(path, "libx264", 0, frames, gop=10, rate=rate)


LEFT, RIGHT = (30, 90, 70, 70), (200, 100, 70, 80)


@pytest.fixture(scope="session")
def clip(tmp_path_factory) -> Path:
    """24 s; a box stands on the left from second 8 to second 16."""
    return write_clip(tmp_path_factory.mktemp("clip") / "room.mp4", [(8, 16, LEFT)])


@pytest.fixture(scope="session")
def other_clip(tmp_path_factory) -> Path:
    """24 s; a box on the right from second 6 on, one on the left from second 14 on."""
    visits = [(6, 99, RIGHT), (14, 99, LEFT)]
    return write_clip(tmp_path_factory.mktemp("clip") / "yard.mp4", visits)


@pytest.fixture(scope="session")
def still(tmp_path_factory) -> Path:
    """A grey picture, in which nothing happens; a daemon that has footage does not begin asleep."""
    path = tmp_path_factory.mktemp("still") / "still.png"
    cv2.imwrite(str(path), np.full((240, 320, 3), 90, np.uint8))
    return path


@pytest.fixture
def pictures(tmp_path) -> tuple[Path, Path]:
    """An empty room, and the same with a bright box on the left."""
    paths = tmp_path / "before.png", tmp_path / "after.png"
    for path, height in zip(paths, (0, 70), strict=True):
        room = np.full((240, 320, 3), 90, np.uint8)
        room[90 : 90 + height, 30:100] = 230
        cv2.imwrite(str(path), room)
    return paths


@pytest.fixture(scope="session")
def busy_clip(tmp_path_factory) -> Path:
    """92 s; a box comes and goes on the left, three times in 80 s."""
    visits = [(begin, begin + 4, LEFT) for begin in (4, 44, 84)]
    return write_clip(tmp_path_factory.mktemp("clip") / "room.mp4", visits, seconds=92, rate=2)


@pytest.fixture(scope="session")
def visited_clip(tmp_path_factory) -> Path:
    """60 s; a box comes and goes on the left, five times from second 12 on."""
    visits = [(begin, begin + 5, LEFT) for begin in range(12, 57, 10)]
    return write_clip(tmp_path_factory.mktemp("clip") / "room.mp4", visits, seconds=60)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(autouse=True)
def forgotten_secrets() -> Iterator[None]:
    """A word that was one test's secret is hidden from no other's messages."""
    known = secrets._revealed.copy()
    yield
    secrets._revealed.intersection_update(known)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def narrated(capfd) -> Callable[..., Outcome]:
    """Runs a command in this process; its log goes when it ends, as that of a process would."""

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        ours = logging.root.handlers[:]
        try:
            code = cli.main([str(argument) for argument in arguments])
        finally:
            for handler in [each for each in logging.root.handlers if each not in ours]:
                logging.root.removeHandler(handler)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


class NotifySocket:
    """Stands in for systemd's end of sd_notify: a real datagram socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(0.1)
        self.heard: list[str] = []

    def wait_for(self, word: str) -> None:
        until = time.monotonic() + LIMIT_S
        while not any(word in message for message in self.heard):
            assert time.monotonic() < until, f"{word} not heard within {LIMIT_S} s; heard {self.heard}"
            self.listen()

    def listen(self) -> None:
        with contextlib.suppress(TimeoutError):
            self.heard.append(self._socket.recv(4096).decode())

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def notify(tmp_path) -> Iterator[NotifySocket]:
    listening = NotifySocket(tmp_path)
    yield listening
    listening.close()


@pytest.fixture
def forked(tmp_path) -> Iterator[Callable[..., Forked]]:
    """Starts commands in processes of their own, which do not outlive the test; see `Forker.start`."""
    processes: list[Forked] = []

    def start(*words: object, **more: Any) -> Forked:
        processes.append(forker().start(words, tmp_path, **more))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(LIMIT_S)


def write_configuration(folder: Path, checkpoint: Path, cameras: str, redis: str | None, more: str) -> Path:
    config = folder / "narrated.yaml"
    server = f"redis: {{url: '{redis}'}}\n" if redis else ""
    config.write_text(
        f"version: 1\nstate: {folder}/state\n{server}{more}"
        f"captioner: {{model: {checkpoint}, device: cpu}}\ncameras:\n{cameras}"
    )
    return config


@pytest.fixture
def start(tmp_path, checkpoint, forked) -> Callable[..., Forked]:
    """Starts the daemon on a configuration's cameras."""

    def start(
        cameras: str,
        redis: str | None = None,
        notify: NotifySocket | None = None,
        more: str = "",
        first: str = "",
    ) -> Forked:
        config = write_configuration(tmp_path, checkpoint, cameras, redis, more)
        told = {"NOTIFY_SOCKET": str(notify.path)} if notify else {}
        return forked("run", "-c", config, first=first, OMP_NUM_THREADS="1", WATCHDOG_USEC="3000000", **told)

    return start


@pytest.fixture
def free_port() -> int:
    return unused_port()


@pytest.fixture
def configure(tmp_path, checkpoint) -> Callable[..., Path]:
    """Writes the configuration of cameras, beside one that is away for ever."""
    away = f"  away: {{url: 'rtsp://127.0.0.1:{unused_port()}/s'}}\n"

    def configure(cameras: str = "", redis: str = "", more: str = "") -> Path:
        return write_configuration(tmp_path, checkpoint, away + cameras, redis, more)

    return configure
