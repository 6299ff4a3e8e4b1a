"""Nuisances: what changes a picture without changing the scene.

Light, gain, casts, shadows of clouds, trees and houses, small shifts of the camera, leaves in the wind, rain,
advertising screens, sensor noise, recompression and the switch to
infra-red. A pair that differs by them alone is told as "nothing has changed".
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import av
import cv2
import numpy as np

from models.boxes import Box
from pipeline.sources import Image


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


def infrared(image: Image, n: Nuisance) -> Image:
    """``amount = (gain, gamma)``: no colour and another response, as after the switch to infra-red light."""
    return gain(grey(image, n), n)


def patch(image: Image, n: Nuisance) -> Image:
    """``amount = (gain, softness)``: a polygon of shade (gain < 1) or light (> 1) over a part of the frame.

    Its edge is `softness` pixels soft.
    """
    rng = np.random.default_rng(n.seed)
    height, width = image.shape[:2]
    angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 9))))
    reach = rng.uniform(0.4, 1.0, len(angles)) * rng.uniform(0.12, 0.5) * height
    tilt, flat = rng.uniform(0, np.pi), rng.uniform(0.2, 1.0)
    along, across = np.cos(angles) * reach, np.sin(angles) * reach * flat
    x = rng.uniform(0, width) + along * np.cos(tilt) - across * np.sin(tilt)
    y = rng.uniform(0.2, 1) * height + along * np.sin(tilt) + across * np.cos(tilt)
    covered = np.zeros((height, width), np.float32)
    cv2.fillPoly(covered, [np.stack([x, y], axis=1).round().astype(np.int32)], 1.0)
    soft = cv2.GaussianBlur(covered, (0, 0), max(n.amount[1], 0.5))[..., None]
    return np.asarray(np.clip(image * (1 + (n.amount[0] - 1) * soft), 0, 255).round(), np.uint8)


def foliage(image: Image, n: Nuisance) -> Image:
    """``amount = (reach,)`` pixels: one to three parts of the picture waver, as leaves in the wind do."""
    rng = np.random.default_rng(n.seed)
    height, width = image.shape[:2]
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    where = np.zeros((height, width), np.float32)
    for _ in range(int(rng.integers(1, 4))):
        middle = (int(rng.uniform(0, width)), int(rng.uniform(0, 0.8) * height))
        axes = (int(rng.uniform(0.06, 0.25) * width), int(rng.uniform(0.06, 0.25) * height))
        cv2.ellipse(where, middle, axes, rng.uniform(0, 180), 0, 360, 1.0, -1)
    soft = cv2.GaussianBlur(where, (0, 0), 4)
    cells = (3, max(height // 10, 2), max(width // 10, 2))
    way = [
        cv2.resize(c, (width, height), interpolation=cv2.INTER_CUBIC)
        for c in rng.uniform(-1.5, 1.5, cells).astype(np.float32)
    ]
    wavering = cv2.remap(
        image,
        columns + way[0] * soft * n.amount[0],
        rows + way[1] * soft * n.amount[0],
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT,
    )
    lit = 1 + 0.06 * (way[2] * soft)[..., None]
    return np.asarray(np.clip(wavering * lit, 0, 255).round(), np.uint8)


def rain(image: Image, n: Nuisance) -> Image:
    """``amount = (streaks, brightness)``: so many streaks per 10,000 pixels, so much brighter."""
    rng = np.random.default_rng(n.seed)
    height, width = image.shape[:2]
    drops = np.zeros((height, width), np.float32)
    slant = rng.uniform(-0.35, 0.35)
    for _ in range(round(n.amount[0] * height * width / 1e4)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        length = rng.uniform(0.01, 0.06) * height
        end = (round(x + slant * length), round(y + length))
        cv2.line(drops, (round(x), round(y)), end, float(rng.uniform(0.3, 1.0)), 1)
    soft = cv2.GaussianBlur(drops, (3, 3), 0)[..., None] * n.amount[1]
    return np.asarray(np.clip(image + soft, 0, 255).round(), np.uint8)


def screen(image: Image, n: Nuisance) -> Image:
    """``amount = (x, y, width, height)`` in 0..1: a bright screen there that shows something random."""
    rng = np.random.default_rng(n.seed)
    height, width = image.shape[:2]
    left, top = round(n.amount[0] * width), round(n.amount[1] * height)
    wide, high = max(round(n.amount[2] * width), 6), max(round(n.amount[3] * height), 6)
    cells = rng.uniform(0, 255, (int(rng.integers(1, 5)), int(rng.integers(1, 5)), 3)).astype(np.float32)
    way = cv2.INTER_NEAREST if rng.random() < 0.4 else cv2.INTER_CUBIC  # noqa: PLR2004
    shown = cv2.resize(cells, (wide, high), interpolation=way)
    for _ in range(int(rng.integers(0, 5))):  # lines of writing
        y, x = int(rng.uniform(0.1, 0.9) * high), int(rng.uniform(0.05, 0.4) * wide)
        end = (int(rng.uniform(0.5, 0.95) * wide), y)
        cv2.line(shown, (x, y), end, rng.uniform(0, 255, 3).tolist(), max(high // 14, 1))
    cv2.rectangle(shown, (0, 0), (wide - 1, high - 1), (25, 25, 25), 1)
    out = image.copy()
    part = out[top : top + high, left : left + wide]
    part[:] = np.clip(shown[: part.shape[0], : part.shape[1]], 0, 255).round().astype(np.uint8)
    return out


APPLY = {
    "gain": gain,
    "cast": cast,
    "shift": shift,
    "noise": noise,
    "jpeg": jpeg,
    "h264": h264,
    "grey": grey,
    "shadow": shadow,
    "infrared": infrared,
    "patch": patch,
    "foliage": foliage,
    "rain": rain,
    "screen": screen,
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
        (0.14, Nuisance("gain", (rng.uniform(0.6, 1.45), rng.uniform(0.75, 1.35)))),
        (0.06, Nuisance("cast", tuple(rng.uniform(0.85, 1.15, 3)))),
        (0.08, Nuisance("shift", (rng.uniform(-5, 5), rng.uniform(-5, 5)))),
        (0.06, Nuisance("noise", (rng.uniform(4, 14),), seed)),
        (0.08, Nuisance("jpeg", (float(rng.integers(8, 35)),))),
        (0.06, Nuisance("h264", (float(rng.integers(28, 42)),))),
        (0.1, Nuisance("shadow", (rng.uniform(0.45, 0.8),), seed)),
        (0.06, Nuisance("infrared", (rng.uniform(0.7, 1.3), rng.uniform(0.6, 1.5)))),
        (0.16, shade(rng)),
        (0.12, Nuisance("foliage", (rng.uniform(1.0, 3.0),), seed)),
        (0.08, Nuisance("rain", (rng.uniform(4, 40), rng.uniform(25, 110)), seed)),
    )
    count = int(rng.integers(1, 3))
    picked = rng.choice(len(kinds), size=count, replace=False, p=[share for share, _ in kinds])
    return tuple(kinds[k][1] for k in sorted(picked))


def shade(rng: np.random.Generator) -> Nuisance:
    """A patch of shade or, less often, of light."""
    dark = rng.random() < 0.7  # noqa: PLR2004
    strength = rng.uniform(0.35, 0.7) if dark else rng.uniform(1.35, 2.0)
    return Nuisance("patch", (strength, rng.uniform(0.8, 6.0)), int(rng.integers(2**31)))


def screens(
    rng: np.random.Generator, taken: Sequence[Box]
) -> tuple[tuple[Nuisance, ...], tuple[Nuisance, ...]]:
    """A screen at one place that shows two different things; for before, and for after.

    Args:
        rng: draws.
        taken: boxes that it should not cover; where no free place is found, there is no screen.
    """
    for _ in range(12):
        wide, high = rng.uniform(0.05, 0.22), rng.uniform(0.06, 0.22)
        x, y = rng.uniform(0.01, 0.99 - wide), rng.uniform(0.01, 0.95 - high)
        if all(x > b[0] + b[2] or b[0] > x + wide or y > b[1] + b[3] or b[1] > y + high for b in taken):
            first, second = (
                (Nuisance("screen", (x, y, wide, high), int(rng.integers(2**31))),) for _ in range(2)
            )
            return first, second
    return (), ()


def hard(rng: np.random.Generator, taken: Sequence[Box]) -> tuple[tuple[Nuisance, ...], tuple[Nuisance, ...]]:
    """What is mixed into pairs with changes, for before and for after: shade, leaves, rain, a screen.

    Args:
        rng: draws.
        taken: boxes that a screen should not cover.
    """
    draw, seed = rng.random(), int(rng.integers(2**31))
    if draw < 0.2:  # noqa: PLR2004
        return screens(rng, taken)
    if draw < 0.55:  # noqa: PLR2004
        one = shade(rng)
    elif draw < 0.75:  # noqa: PLR2004
        one = Nuisance("foliage", (rng.uniform(1.0, 2.5),), seed)
    elif draw < 0.9:  # noqa: PLR2004
        one = Nuisance("rain", (rng.uniform(3, 25), rng.uniform(25, 80)), seed)
    else:
        one = Nuisance("gain", (rng.uniform(0.7, 1.35), rng.uniform(0.8, 1.25)))
    return ((one,), ()) if rng.random() < 0.5 else ((), (one,))  # noqa: PLR2004
