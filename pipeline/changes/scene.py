"""Scene events: changes of light and view, and obstruction."""

from enum import StrEnum

import cv2
import numpy as np
from numpy.typing import NDArray


class SceneEvent(StrEnum):
    """Changes of the entire scene."""

    NONE = "none"
    LIGHT = "light_changed"
    VIEW = "view_changed"
    OBSTRUCTED = "obstructed"


_SIZE = (160, 96)  # width and height at which structure is compared: small shifts and noise hardly count
_BLOCK = 16
_STRUCTURED = 3.0  # root mean square gradient (grey levels a pixel) from which a block has structure
_SAME = 0.4  # correlation from which a block shows the same structure
_COLLAPSE = 0.3  # gradients below this share of what they were, without agreement: covered or blacked out
_BLURRED = 0.65  # gradients of unchanged structure below this share of what its contrast predicts: blurred
_MOST = 0.5  # share of structured blocks that show the same from which the view is the same one
_FEW = 0.14  # share below which the view is another one: of days and nights of one camera 1 of 25 lies below
_OTHER = 0.25  # share of all blocks that must have structure on both sides, or it is no view at all
_SHIFTED = 2  # pixels by which a camera on a mast may sway
_BURNT_IN = 9  # blocks left out, those that agree most: text in the picture stays where another view comes
_ALIGNED = 2.8  # standard deviations: of days and nights of training cameras without glare 1 of 100 is below
_BRIGHTER = 8.0  # grey levels by which unchanged blocks must differ for a change of light


def scene_event(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> SceneEvent:
    """Classify the change of the scene from two luma planes uint8 ``(h, w)``, which may differ in size.

    Structure is compared block by block through gradient orientations with double angles, which
    brightness, contrast and even inverted contrast (infrared at night) leave as they are. OBSTRUCTED is where
    it collapses (covered, blacked-out or blurred lens), LIGHT where it stays and brightness changes, VIEW
    where it is another one, NONE where at most a part of the blocks changed, as a big object does.
    """
    scaled = [cv2.resize(plane, _SIZE, interpolation=cv2.INTER_AREA) for plane in (before, after)]
    planes = [
        np.asarray(cv2.GaussianBlur(plane.astype(np.float32), (3, 3), 0.8), np.float32) for plane in scaled
    ]
    fields = [_orientations(plane) for plane in planes]
    energies = [np.sqrt(_blocks((field**2).sum(-1)).mean(-1)) for field in fields]
    structured = np.maximum(*energies) >= _STRUCTURED
    brightness = [_blocks(plane).mean(-1) for plane in planes]
    if not structured.any():
        differs = float(np.median(np.abs(brightness[1] - brightness[0]))) >= _BRIGHTER
        return SceneEvent.LIGHT if differs else SceneEvent.NONE
    same = structured & (_correlation(*fields) >= _SAME)
    unchanged = float(same.sum() / structured.sum())
    if unchanged < _FEW:
        sharpness = energies[1][structured].mean() / max(energies[0][structured].mean(), 1e-6)
        if sharpness < _COLLAPSE:
            return SceneEvent.OBSTRUCTED
        # A car on bare ground brings and takes all structure there is; another view shows other structure.
        other = np.minimum(*energies) >= _STRUCTURED
        if other.mean() < _OTHER:
            return SceneEvent.NONE
        darker = float(np.abs(np.subtract(*(np.sort(each) for each in brightness))).mean())
        is_same = darker >= _BRIGHTER and _alignment(*fields) >= _ALIGNED  # a day and a night
        return SceneEvent.LIGHT if is_same else SceneEvent.VIEW
    blocks = [_blocks(plane)[same] for plane in planes]
    contrast = blocks[1].std() / max(blocks[0].std(), 1e-6)
    if np.median(energies[1][same] / np.maximum(energies[0][same], 1e-6)) < _BLURRED * contrast:
        return SceneEvent.OBSTRUCTED
    brighter = np.median(np.abs(brightness[1] - brightness[0])[same])
    return SceneEvent.LIGHT if unchanged >= _MOST and brighter >= _BRIGHTER else SceneEvent.NONE


def _orientations(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradients ``(h, w, 2)`` with their angle doubled, so that opposite directions are the same."""
    gx = cv2.Sobel(plane, cv2.CV_32F, 1, 0, scale=0.125)
    gy = cv2.Sobel(plane, cv2.CV_32F, 0, 1, scale=0.125)
    size = np.sqrt(gx * gx + gy * gy) + 1e-6
    return np.stack([(gx * gx - gy * gy) / size, 2 * gx * gy / size], axis=-1).astype(np.float32)


def _alignment(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Agreement of two orientation fields as they lie, compared with every other shift.

    In standard deviations over all shifts, without the `_BURNT_IN` blocks that agree most. A day and a night
    share few blocks, yet a little of their edges everywhere.
    """
    one, other = (_normalize(field) for field in (a, b))
    surface = np.fft.ifft2(np.conj(np.fft.fft2(one)) * np.fft.fft2(other)).real
    reach = range(-_SHIFTED, _SHIFTED + 1)
    y, x = max(((y, x) for y in reach for x in reach), key=lambda shift: surface[shift])
    agreeing = np.real(np.conj(one) * np.roll(other, (-y, -x), (0, 1))).astype(np.float32)
    rest = np.sort(_blocks(agreeing).sum(-1))[:-_BURNT_IN].sum()
    return float((rest - surface.mean()) / max(float(surface.std()), 1e-6))


def _normalize(field: NDArray[np.float32]) -> NDArray[np.complex64]:
    """An orientation field as complex numbers, by the strength of the edges around."""
    size = np.sqrt((field**2).sum(-1))
    around = cv2.GaussianBlur(size, (0, 0), 6) + 2.0
    complex_field = (field[..., 0] + 1j * field[..., 1]) / (around + size)
    return np.asarray(complex_field - complex_field.mean(), np.complex64)


def _blocks(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Elements of every block, ``(blocks, elements)``."""
    height, width = plane.shape
    parts = plane.reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)
    return parts.transpose(0, 2, 1, 3).reshape(-1, _BLOCK * _BLOCK)


def _correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Correlation of two orientation fields in every block, ``(blocks,)``, -1..1."""
    one, other = (np.concatenate([_centre(f[..., 0]), _centre(f[..., 1])], axis=1) for f in (a, b))
    sizes = np.sqrt((one**2).sum(1) * (other**2).sum(1)) + 1e-6
    return np.asarray((one * other).sum(1) / sizes, np.float32)


def _centre(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    blocks = _blocks(plane)
    centred: NDArray[np.float32] = blocks - blocks.mean(1, keepdims=True)
    return centred
