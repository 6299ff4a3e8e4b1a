"""Drawn footage, a teacher that sees what was drawn, and the beginning of real footage."""

from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path

import av
import cv2
import numpy as np

from train.footage.teachers import Spotted

HEIGHT, WIDTH = 192, 256
RED, BLUE = (220, 30, 30), (30, 40, 220)


def clip(path: Path, *, seconds: float = 12.0, seed: int = 5, still: bool = False) -> Path:
    """A rough wall, before which red cars drive below and blue persons walk above; 4 frames a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_drawn(seconds, seed, still=still))
    return path


@cache
def _drawn(seconds: float, seed: int, *, still: bool) -> bytes:
    """Such a clip, which many tests ask for."""
    wall, file = rough(seed), BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=4)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for k in range(round(4 * seconds)):
            image = wall.copy()
            if not still:
                cv2.rectangle(image, (10 + 9 * (k % 20), 120), (66 + 9 * (k % 20), 160), RED, -1)
                cv2.rectangle(image, (200 - 5 * (k % 30), 30), (224 - 5 * (k % 30), 90), BLUE, -1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def begun(source: Path, target: Path, seconds: float = 5) -> None:
    """Copies the beginning of a clip: what is tried here needs no more of it."""
    with av.open(str(source)) as whole, av.open(str(target), "w") as part:
        stream = part.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.pts is not None and packet.pts * packet.time_base < seconds:
                packet.stream = stream
                part.mux(packet)


def rough(seed: int = 5) -> np.ndarray:
    """A wall of grey patches, RGB."""
    patches = np.random.default_rng(seed).integers(70, 140, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return np.kron(patches, np.ones((8, 8, 1), np.uint8))


def picture(path: Path) -> Path:
    """A still with one red car."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = rough()
    cv2.rectangle(image, (40, 120), (96, 160), RED, -1)
    assert cv2.imwrite(str(path), image[..., ::-1])
    return path


class Painted:
    """A detector of drawn footage: red is a car, blue a person."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, image: np.ndarray) -> list[Spotted]:
        self.asked += 1
        red, green, blue = (image[..., n].astype(int) for n in range(3))
        found: list[Spotted] = []
        for label, mask in (("car", red - blue > 90), ("person", blue - red > 90)):
            found += sights(label, np.asarray(mask & (green < 110), np.uint8))
        return found


def sights(label: str, mask: np.ndarray) -> Sequence[Spotted]:
    height, width = mask.shape
    boxes = cv2.connectedComponentsWithStats(mask)[2][1:].tolist()
    return [
        Spotted(label, 0.9, x / width, y / height, (x + w) / width, (y + h) / height)
        for x, y, w, h, area in boxes
        if area > 80
    ]
