"""Nuisances: what changes a picture without changing the scene.

Light, gain, casts, shadows of clouds and trees, small shifts of the camera, sensor noise, recompression and
the switch to infra-red. A pair that differs by them alone is told as "nothing has changed".
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Nuisance:
    """One step that is applied to an image.

    Attributes:
        kind: a key of `APPLY`.
        amount: its parameters, see the function of that name.
        seed: for the kinds that draw random numbers.
    """

    kind: str
    amount: tuple[float, ...]
    seed: int = 0


def gain(image: Image, n: Nuisance) -> Image:
    """``amount = (gain, gamma)``: 255 * gain * (v / 255) ** gamma."""
    table = np.clip(255 * n.amount[0] * (np.arange(256) / 255) ** n.amount[1], 0, 255).round()
    return np.asarray(cv2.LUT(image, table.astype(np.uint8)), np.uint8)


def cast(image: Image, n: Nuisance) -> Image:
    """``amount = (red, green, blue)``: one gain per channel."""
    return np.asarray(np.clip(image * np.array(n.amount, np.float32), 0, 255).round(), np.uint8)


def shift(image: Image, n: Nuisance) -> Image:
    """``amount = (dx, dy)`` pixels; the border repeats."""
    matrix = np.array([[1, 0, n.amount[0]], [0, 1, n.amount[1]]], np.float32)
    size = (image.shape[1], image.shape[0])
    moved = cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.uint8)


def noise(image: Image, n: Nuisance) -> Image:
    """``amount = (sigma,)`` grey levels of Gaussian noise."""
    rng = np.random.default_rng(n.seed)
    grains = rng.standard_normal(image.shape, np.float32) * n.amount[0]
    return np.asarray(np.clip(image + grains, 0, 255).round(), np.uint8)


def jpeg(image: Image, n: Nuisance) -> Image:
    """``amount = (quality,)``, 1..100."""
    coded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, int(n.amount[0])])[1]
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), np.uint8)


def h264(image: Image, n: Nuisance) -> Image:
    """``amount = (crf,)``, 0..51: one key frame of H.264; an odd last row or column stays as it is."""
    even = np.ascontiguousarray(image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2])
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width = even.shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": str(int(n.amount[0])), "preset": "ultrafast"}
        stream.codec_context.thread_count = 1
        container.mux(stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")))
        container.mux(stream.encode(None))
    file.seek(0)
    out = image.copy()
    with av.open(file, "r") as container:
        decoded = next(container.decode(video=0)).to_ndarray(format="rgb24")
    out[: even.shape[0], : even.shape[1]] = decoded
    return out


def grey(image: Image, _: Nuisance) -> Image:
    """No colour, as under infra-red light."""
    return np.asarray(np.repeat(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2), np.uint8)


def shadow(image: Image, n: Nuisance) -> Image:
    """``amount = (darkest,)``: soft patches of shade; the darkest keeps this share of its light."""
    rng = np.random.default_rng(n.seed)
    height, width = image.shape[:2]
    cells = rng.random((rng.integers(3, 7), rng.integers(3, 7)), np.float32)
    shade = cv2.resize(cells, (width, height), interpolation=cv2.INTER_CUBIC)
    shade = 1 / (1 + np.exp(-(shade - np.quantile(shade, 0.75)) * 14))
    return np.asarray(np.clip(image * (1 - (1 - n.amount[0]) * shade[..., None]), 0, 255).round(), np.uint8)


APPLY = {
    "gain": gain,
    "cast": cast,
    "shift": shift,
    "noise": noise,
    "jpeg": jpeg,
    "h264": h264,
    "grey": grey,
    "shadow": shadow,
}


def disturb(image: Image, nuisances: tuple[Nuisance, ...]) -> Image:
    """Apply nuisances to an RGB uint8 image ``(h, w, 3)``, in their order; the image itself stays."""
    for n in nuisances:
        image = APPLY[n.kind](image, n)
    return image


def mild(rng: np.random.Generator) -> tuple[Nuisance, ...]:
    """What any two frames of a real camera differ by, also when something changed."""
    chosen = []
    if rng.random() < 0.5:  # noqa: PLR2004
        chosen.append(Nuisance("gain", (rng.uniform(0.9, 1.1), rng.uniform(0.93, 1.08))))
    if rng.random() < 0.25:  # noqa: PLR2004
        chosen.append(Nuisance("shift", (rng.uniform(-1.5, 1.5), rng.uniform(-1.5, 1.5))))
    if rng.random() < 0.6:  # noqa: PLR2004
        chosen.append(Nuisance("noise", (rng.uniform(0.5, 3.5),), int(rng.integers(2**31))))
    if rng.random() < 0.6:  # noqa: PLR2004
        chosen.append(Nuisance("jpeg", (float(rng.integers(45, 95)),)))
    return tuple(chosen)


def strong(rng: np.random.Generator) -> tuple[Nuisance, ...]:
    """One or two nuisances that a careless narrator would take for a change."""
    seed = int(rng.integers(2**31))
    kinds = (
        Nuisance("gain", (rng.uniform(0.6, 1.45), rng.uniform(0.75, 1.35))),
        Nuisance("cast", tuple(rng.uniform(0.85, 1.15, 3))),
        Nuisance("shift", (rng.uniform(-5, 5), rng.uniform(-5, 5))),
        Nuisance("noise", (rng.uniform(4, 14),), seed),
        Nuisance("jpeg", (float(rng.integers(8, 35)),)),
        Nuisance("h264", (float(rng.integers(28, 42)),)),
        Nuisance("shadow", (rng.uniform(0.45, 0.8),), seed),
    )
    count = int(rng.integers(1, 3))
    picked = rng.choice(len(kinds), size=count, replace=False, p=(0.22, 0.1, 0.1, 0.1, 0.14, 0.1, 0.24))
    return tuple(kinds[k] for k in sorted(picked))
