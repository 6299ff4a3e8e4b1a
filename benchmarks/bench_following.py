"""What following costs for each sampled 1080p frame on one CPU thread: small picture, detector, tracker.

python benchmarks/bench_following.py [--frames 40]
"""

from __future__ import annotations

import argparse
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

import av
import cv2
import numpy as np
import torch
from bench_pair import START

from models import load_captioner
from models.captioner import Sighted
from pipeline.following import Follower
from pipeline.narration.batch import seeing
from pipeline.pairs import Between, FramePair, small_image
from pipeline.sources import Clock, Frame, Image
from pipeline.sources.picture import LazyPicture

VTEST = Path(__file__).resolve().parents[2] / "shared" / "data" / "clips" / "opencv_vtest.avi"


def frames(number: int) -> list[Image]:
    """Pictures of a campus path, two a second, enlarged to 1080p."""
    found: list[Image] = []
    with av.open(str(VTEST)) as container:
        for k, frame in enumerate(container.decode(video=0)):
            if k % 5 == 0:
                image = frame.to_ndarray(format="rgb24")
                found.append(np.asarray(cv2.resize(image, (1920, 1080)), np.uint8))
            if len(found) == number:
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=40)
    asked = parser.parse_args()
    if not VTEST.exists():
        raise SystemExit(f"{VTEST.name} is not there: put the footage beside the checkout")
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    captioner = load_captioner()
    if not isinstance(captioner, Sighted):
        raise TypeError(f"captioner {captioner.name} does not see single pictures")
    follower, see = Follower(), seeing(captioner)
    held = [held_frame(k, image) for k, image in enumerate(frames(asked.frames))]
    spent = []
    for before, middle, after in zip(held[::2], held[1::2], held[2::2], strict=False):
        start = time.perf_counter()
        between = (Between(middle.time, small_image(middle.image)),)
        follower.follow(FramePair(before, after, 10.0, between=between), see)
        spent.append(1000 * (time.perf_counter() - start) / 2)  # `before` was seen with the last pair
    print(f"ms a frame, one thread: least {min(spent[2:]):.1f}, median {median(spent[2:]):.1f}")


def held_frame(number: int, image: Image) -> Frame:
    """A picture as a frame that is decoded already."""
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    time_of = START + timedelta(seconds=number / 2)
    return Frame("yard", time_of, Clock.FILE, number, grey, LazyPicture(lambda: image))


if __name__ == "__main__":
    main()
