"""Why pictures travel to workers without loss: the benchmark's pairs that are told otherwise, by codec.

    python benchmarks/bench_codecs.py

Every picture that the detector looks at is encoded and decoded again. The figures are in 2026-11-workers.md.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import predictors
import torch
from torch import Tensor

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.tools.description import Description, PairPaths, describe
from daemon.tools.gaps import Gap
from models import load_captioner
from models.detections import Detections
from models.grounded.grounded import Grounded
from models.grounded.sight import seen

CODECS = ("png", "jpeg 98", "jpeg 95", "jpeg 90")


class Travel:
    """Pictures encoded and decoded again."""

    def __init__(self, codec: str) -> None:
        self.bytes = self.count = 0
        self.spent_s = 0.0
        self._codec = codec

    def eyes(self, captioner: Grounded) -> Callable[[Sequence[Tensor]], list[Detections]]:
        """Those of the captioner's detector, at the end of the way."""
        return lambda all_: seen(captioner.detector, [self._travelled(picture) for picture in all_])

    def _travelled(self, picture: Tensor) -> Tensor:
        if self._codec == "as they are":
            return picture
        rows = np.ascontiguousarray(picture.numpy().transpose(1, 2, 0)[..., ::-1])
        options = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]
        kind, _, quality = self._codec.partition(" ")
        if quality:
            options = [cv2.IMWRITE_JPEG_QUALITY, int(quality), cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x111111]
        began = time.process_time()
        data = cv2.imencode(f".{kind}", rows, options)[1]
        self.spent_s += time.process_time() - began
        self.bytes, self.count = self.bytes + len(data), self.count + 1
        return torch.from_numpy(np.ascontiguousarray(cv2.imdecode(data, 1)[..., ::-1].transpose(2, 0, 1)))


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    parts = predictors.parts()
    every = [pair for part in ("unseen", "seen") for pair in parts[part]]
    captioner: Any = load_captioner()
    plan = camera_plan("describe", "", CameraDefaults())
    print("| codec | kB a picture | encoding ms | pairs told otherwise | sentences |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        shown = predictors.pictures(every, Path(folder))
        paths = [PairPaths(p["id"], *shown[p["id"]], Gap(p.get("gap_s"), "benchmark")) for p in every]
        told: dict[str, list[list[str]]] = {}
        for codec in ("as they are", *CODECS):
            travel = Travel(codec)
            captioner.eyes = travel.eyes(captioner)
            told[codec] = [
                [s.text for s in each.narration.sentences]
                for each in describe(paths, captioner, plan)
                if isinstance(each, Description)
            ]
            otherwise = sum(a != b for a, b in zip(told[codec], told["as they are"], strict=True))
            kb, ms = travel.bytes / 1000 / max(travel.count, 1), 1000 * travel.spent_s / max(travel.count, 1)
            count = sum(map(len, told[codec]))
            print(
                f"| {codec} | {kb:.0f} | {ms:.1f} | {otherwise} of {len(told[codec])} | {count} |", flush=True
            )


if __name__ == "__main__":
    main()
