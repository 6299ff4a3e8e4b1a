"""Scene events: changes of light and view, and obstruction."""

from enum import StrEnum

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline import settings


class SceneEvent(StrEnum):
    """Changes of the entire scene."""

    NONE = "none"
    LIGHT = "light_changed"
    VIEW = "view_changed"
    OBSTRUCTED = "obstructed"


def scene_event(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> SceneEvent:
    """Classify the change of the scene from two luma planes uint8 ``(h, w)``, which may differ in size.

    Structure is compared block by block through gradient orientations with double angles, which
    brightness, contrast and even inverted contrast (infrared at night) leave as they are. OBSTRUCTED is where
    it collapses (covered, blacked-out or blurred lens), LIGHT where it stays and brightness changes, VIEW
    where it is another one, NONE where at most a part of the blocks changed, as a big object does.
    """
    scaled = [cv2.resize(plane, (160, 96), interpolation=cv2.INTER_AREA) for plane in (before, after)]
    planes = [
        np.asarray(cv2.GaussianBlur(plane.astype(np.float32), (3, 3), 0.8), np.float32) for plane in scaled
    ]
    fields = [_orientations(plane) for plane in planes]
    energies = [np.sqrt(_blocks((field**2).sum(-1)).mean(-1)) for field in fields]
    structured = np.maximum(*energies) >= settings.SCENE_STRUCTURE_LEVELS
    brightness = [_blocks(plane).mean(-1) for plane in planes]
    if not structured.any():
        differs = float(np.median(np.abs(brightness[1] - brightness[0]))) >= settings.SCENE_BRIGHTER_LEVELS
        return SceneEvent.LIGHT if differs else SceneEvent.NONE
    same = structured & (_correlation(*fields) >= settings.SCENE_SAME_CORRELATION)
    unchanged = float(same.sum() / structured.sum())
    if unchanged < settings.SCENE_FEW_SHARE:
        sharpness = energies[1][structured].mean() / max(energies[0][structured].mean(), 1e-6)
        if sharpness < settings.SCENE_COLLAPSE_SHARE:
            return SceneEvent.OBSTRUCTED
        # A car on bare ground brings and takes all structure there is; another view shows other structure.
        other = np.minimum(*energies) >= settings.SCENE_STRUCTURE_LEVELS
        if other.mean() < settings.SCENE_OTHER_SHARE:
            return SceneEvent.NONE
        darker = float(np.abs(np.subtract(*(np.sort(each) for each in brightness))).mean())
        is_same = darker >= settings.SCENE_BRIGHTER_LEVELS  # may be a day and a night
        is_same = is_same and _alignment(*fields) >= settings.SCENE_ALIGNED_DEVIATIONS
        return SceneEvent.LIGHT if is_same else SceneEvent.VIEW
    blocks = [_blocks(plane)[same] for plane in planes]
    contrast = blocks[1].std() / max(blocks[0].std(), 1e-6)
    sharpness = np.median(energies[1][same] / np.maximum(energies[0][same], 1e-6))
    if sharpness < settings.SCENE_BLURRED_SHARE * contrast:
        return SceneEvent.OBSTRUCTED
    brighter = np.median(np.abs(brightness[1] - brightness[0])[same]) >= settings.SCENE_BRIGHTER_LEVELS
    is_same = unchanged >= settings.SCENE_MOST_SHARE
    return SceneEvent.LIGHT if brighter and is_same else SceneEvent.NONE


def _orientations(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradients ``(h, w, 2)`` with their angle doubled, so that opposite directions are the same."""
    gx = cv2.Sobel(plane, cv2.CV_32F, 1, 0, scale=0.125)
    gy = cv2.Sobel(plane, cv2.CV_32F, 0, 1, scale=0.125)
    size = np.sqrt(gx * gx + gy * gy) + 1e-6
    return np.stack([(gx * gx - gy * gy) / size, 2 * gx * gy / size], axis=-1).astype(np.float32)


def _alignment(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Agreement of two orientation fields as they lie, compared with every other shift.

    In standard deviations over all shifts, without the nine blocks that agree most: text in the picture stays
    where another view comes. A day and a night share few blocks, yet a little of their edges everywhere.
    """
    one, other = (_normalize(field) for field in (a, b))
    surface = np.fft.ifft2(np.conj(np.fft.fft2(one)) * np.fft.fft2(other)).real
    reach = range(-2, 3)  # a camera on a mast may sway
    y, x = max(((y, x) for y in reach for x in reach), key=lambda shift: surface[shift])
    agreeing = np.real(np.conj(one) * np.roll(other, (-y, -x), (0, 1))).astype(np.float32)
    rest = np.sort(_blocks(agreeing).sum(-1))[:-9].sum()
    return float((rest - surface.mean()) / max(float(surface.std()), 1e-6))


def _normalize(field: NDArray[np.float32]) -> NDArray[np.complex64]:
    """An orientation field as complex numbers, by the strength of the edges around."""
    size = np.sqrt((field**2).sum(-1))
    around = cv2.GaussianBlur(size, (0, 0), 6) + 2.0
    complex_field = (field[..., 0] + 1j * field[..., 1]) / (around + size)
    return np.asarray(complex_field - complex_field.mean(), np.complex64)


def _blocks(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Elements of every block, ``(blocks, elements)``."""
    (height, width), side = plane.shape, 16
    parts = plane.reshape(height // side, side, width // side, side)
    return parts.transpose(0, 2, 1, 3).reshape(-1, side * side)


def _correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Correlation of two orientation fields in every block, ``(blocks,)``, -1..1."""
    one, other = (np.concatenate([_centre(f[..., 0]), _centre(f[..., 1])], axis=1) for f in (a, b))
    sizes = np.sqrt((one**2).sum(1) * (other**2).sum(1)) + 1e-6
    return np.asarray((one * other).sum(1) / sizes, np.float32)


def _centre(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    blocks = _blocks(plane)
    centred: NDArray[np.float32] = blocks - blocks.mean(1, keepdims=True)
    return centred
