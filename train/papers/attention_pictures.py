"""Where a captioner looks while it says a word, as a picture: a column per word, before above after.

The word-to-region attention that Yao, Wang and Jin 2022 show of IDC-PCL.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from models.captioner import Captioner, PairBatch
from models.decoding import decode
from models.language.vocabulary import EOS, PAD, surface
from models.papers.idc_pcl import IDCPCL
from pipeline.alignment import Shift
from pipeline.changes import ChangeOptions, image_changes
from pipeline.narration.batch import aligned
from pipeline.sources import Image
from train.checkpoints import TrainError
from train.papers.features import read_image

THUMB, LABEL = 128, 22
"""Pixels of a small picture, and of the line with its word."""


def attention_picture(
    captioner: Captioner, before: Path, after: Path, sentence: str | None = None
) -> tuple[str, Image]:
    """Draw where an IDC-PCL looks while it says each word of a sentence.

    Args:
        captioner: an `IDCPCL`.
        before: image file.
        after: image file.
        sentence: what is said; None lets the captioner say it.

    Returns:
        The sentence, and the picture, RGB uint8 ``(height, width, 3)``; red is where it looks, the same scale
        in every column.

    Raises:
        TrainError: another captioner, or no word in the sentence.
        FeatureError: an image cannot be read.
    """
    if not isinstance(captioner, IDCPCL):
        raise TrainError(
            f"a captioner {captioner.name} has no word-to-region attention; give a checkpoint of idc-pcl"
        )
    pairs, images = _seen(captioner, read_image(before), read_image(after))
    captioner.eval()
    if sentence is None:
        with torch.inference_mode():
            (decoded,) = decode(captioner.step, captioner.encode(pairs))
        sentence = surface(captioner.vocabulary.decode(decoded.tokens))
    tokens = captioner.vocabulary.batch([[sentence]])
    if int(tokens[0, 0, 0]) in (PAD, EOS):
        raise TrainError(f"there is no word in {sentence!r}; say what changed")
    said = [captioner.vocabulary.words[t] for t in tokens[0, 0].tolist()]
    said[-1] = "."
    weights = captioner.attention(pairs, tokens)[0, 0].cpu().numpy()
    columns = [
        _column(word, each, images, float(weights.max())) for word, each in zip(said, weights, strict=True)
    ]
    return sentence, np.concatenate(columns, axis=1)


def _seen(captioner: Captioner, before: Image, after: Image) -> tuple[PairBatch, tuple[Image, Image]]:
    """The pair as a batch without clusters, and both images as the captioner sees them."""
    options = ChangeOptions.of(captioner.record.get("changes", {}))
    shift: Shift = image_changes(before, after, options)[0]
    both = aligned(before, after, shift, options.size, captioner.image_size)
    first, second = (torch.from_numpy(image.copy()).permute(2, 0, 1).unsqueeze(0) for image in both)
    none = torch.zeros(1, 0)
    boxes, masks = torch.zeros(1, 0, 4), torch.zeros(1, 0, *options.size, dtype=torch.bool)
    return PairBatch(first, second, masks, boxes, none, none.bool()), (both[0], both[1])


def _column(word: str, weights: NDArray[np.float32], images: tuple[Image, Image], most: float) -> Image:
    """A word, and below it both images under the weights ``(2, 7, 7)``."""
    label = np.full((LABEL, THUMB, 3), 255, np.uint8)
    cv2.putText(label, word, (3, LABEL - 7), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
    rows = [label]
    for image, cells in zip(images, weights, strict=True):
        small = cv2.resize(image, (THUMB - 2, THUMB - 2), interpolation=cv2.INTER_AREA)
        heat = cv2.resize(cells / max(most, 1e-9), (THUMB - 2, THUMB - 2), interpolation=cv2.INTER_CUBIC)
        share = 0.75 * np.clip(heat, 0, 1)[..., None]
        grey = np.repeat(small.mean(axis=2, keepdims=True), 3, axis=2)
        shown = grey * (1 - share) + np.array([230.0, 20.0, 20.0]) * share
        rows.append(np.pad(shown.round().astype(np.uint8), ((1, 1), (1, 1), (0, 0)), constant_values=255))
    return np.concatenate(rows)
