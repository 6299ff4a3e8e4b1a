"""A street drawn as luma planes: footage for tests of pairs, gate and thresholds."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from pipeline.sources import Clock, Frame
from pipeline.sources.frame import LazyPicture

START = datetime(2024, 3, 1, tzinfo=UTC)
SIZE = (96, 160)


def street(person: int | None = None, grey: int = 220, brightness: float = 1.0) -> np.ndarray:
    """An empty street, or one with a person at `person` pixels from the left."""
    luma = np.tile(np.linspace(60, 150, SIZE[1]), (SIZE[0], 1))
    luma[20:60, 100:140] = 40
    if person is not None:
        luma[60:84, max(person, 0) : person + 10] = grey
    return (luma * brightness).astype(np.uint8)


def noisy(rng: np.random.Generator, sigma: float, luma: np.ndarray) -> np.ndarray:
    return np.clip(luma + rng.normal(0, sigma, luma.shape), 0, 255).astype(np.uint8)


def frame(t: float, luma: np.ndarray, camera: str = "yard", full: np.ndarray | None = None) -> Frame:
    plane = luma if full is None else full
    picture = LazyPicture(lambda: np.repeat(plane[..., None], 3, axis=2))
    return Frame(camera, START + timedelta(seconds=t), Clock.FILE, round(1000 * t), luma, picture)


def frames(lumas: Iterable[np.ndarray], hz: float = 2.0) -> Iterator[Frame]:
    return (frame(k / hz, luma) for k, luma in enumerate(lumas))


def film(
    scene: Callable[[float], np.ndarray], seconds: float, hz: float = 2.0, begin: float = 0.0
) -> list[Frame]:
    times = [begin + k / hz for k in range(int(seconds * hz))]
    return [frame(t, scene(t)) for t in times]


def second(each: Frame) -> float:
    return (each.time - START).total_seconds()
