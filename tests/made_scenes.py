"""Pictures of streets, drawn and real, of which tests of changes make pairs."""

from pathlib import Path

import av
import cv2
import numpy as np
import yaml
from still import shown

from pipeline.changes import ChangeOptions
from pipeline.changes.clusters import Cluster
from pipeline.pairs import FramePair

GROUNDED = ChangeOptions.of(
    yaml.safe_load((Path(__file__).parents[1] / "configs/train/grounded.yaml").read_text(encoding="utf-8"))[
        "changes"
    ]
)
FINE = ChangeOptions(size=(216, 384), max_shift=8, delta=38, eps=3, min_samples=10, min_area=0.001)


def pair_of(before: np.ndarray, after: np.ndarray, *, beyond_upper: bool = False) -> FramePair:
    frames = []
    for index, image in enumerate((before, after)):
        luma = cv2.cvtColor(cv2.resize(image, (480, 270), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
        frames.append(shown(image, index, luma=luma))
    return FramePair(*frames, 10.0, beyond_upper)


def scene(seed: int = 0, height: int = 270, width: int = 480) -> np.ndarray:
    """A street of sorts: ground, walls, windows, texture."""
    random = np.random.default_rng(seed)
    image = np.full((height, width, 3), random.integers(90, 140), np.uint8)
    for _ in range(60):
        x, y = random.integers(0, width), random.integers(0, height)
        size = random.integers(10, 90, 2)
        colour = tuple(int(v) for v in random.integers(40, 200, 3))
        cv2.rectangle(image, (x, y), (x + int(size[0]), y + int(size[1])), colour, -1)
    texture = cv2.GaussianBlur(random.normal(0, 18, image.shape), (0, 0), 1.2)
    return np.clip(image + texture, 0, 255).astype(np.uint8)


def noisy(image: np.ndarray, seed: int, sigma: float = 3.0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def with_object(image: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    """A striped red thing put into the picture."""
    changed = image.copy()
    changed[y : y + height, x : x + width] = (230, 20, 30)
    changed[y + height // 3 : y + height // 2, x : x + width] = (250, 240, 60)
    return changed


def overlap(cluster: Cluster, x: float, y: float, width: float, height: float) -> float:
    """Intersection over union of a cluster's box with a box in 0..1."""
    a, b, w, h = cluster.box
    across = max(0.0, min(a + w, x + width) - max(a, x))
    down = max(0.0, min(b + h, y + height) - max(b, y))
    return across * down / (w * h + width * height - across * down)


def lumas(*images: np.ndarray) -> list[np.ndarray]:
    return [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in images]


def real_frames(path: Path, count: int) -> list[np.ndarray]:
    with av.open(path) as container:
        return [
            f.to_ndarray(format="rgb24")
            for _, f in zip(range(count), container.decode(video=0), strict=False)
        ]
