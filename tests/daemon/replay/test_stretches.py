"""The stretches of a long file: whatever is seen there, the record is the one of a single machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from rectangles import COLOURS, GREY, see_rectangles
from rich.console import Console

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults
from daemon.replay.inputs import ReplayInput
from daemon.replay.progress import ReplayProgress
from daemon.replay.replay import ReplayOptions, replay
from daemon.replay.stretches import Sights, lend_eyes, sights_of, stretches_of, thresholds_of
from daemon.threads.camera_thread import Span
from models import load_captioner
from models.grounded.grounded import Grounded
from pipeline.sources import SourceOptions
from pipeline.sources.video import Stretch, VideoSource

SECONDS, RATE = 34, 5


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> ReplayInput:
    """Every 10 s somebody walks in, stands, and walks on 8 s later: somebody is there at every cut."""
    path = tmp_path_factory.mktemp("footage") / "street.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        stream.options = {"crf": "4", "g": "20"}
        for k in range(SECONDS * RATE):
            image = np.full((240, 320, 3), GREY, np.uint8)
            for name, begin, y in (("person", 2, 130), ("car", 5, 40)):
                t = (k / RATE - begin) % 10
                x = round(60 * min(t, 2) + 60 * max(t - 5, 0))
                cv2.rectangle(image, (x, y), (x + 30, y + 60), COLOURS[name], -1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return ReplayInput("street", (path,))


@pytest.fixture(scope="module")
def captioner() -> Grounded:
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    return see_rectangles(captioner)


@pytest.fixture(scope="module")
def options() -> ReplayOptions:
    return ReplayOptions(camera_plan("replay", "", CameraDefaults()))


def record(
    footage: ReplayInput, captioner: Grounded, options: ReplayOptions, sights: Sights, out: Path
) -> tuple[dict[str, bytes], int]:
    """What is written with these sights, by name, and how many pictures were looked at by who wrote it."""
    eyes = lend_eyes(captioner, sights)
    assert eyes is not None
    quiet = ReplayProgress(Console(quiet=True))
    report = replay([footage], captioner, replace(options, out=out), lambda *_: None, quiet)
    lend_eyes(captioner, {})
    assert not report.problems
    files = [p for name in ("journal", "evidence") for p in (out / name).rglob("*") if p.is_file()]
    kept = {str(p.relative_to(out)): p.read_bytes() for p in files if p.suffix != ".writer"}
    return kept, eyes.looked_here


@pytest.fixture(scope="module")
def alone(
    footage: ReplayInput,
    captioner: Grounded,
    options: ReplayOptions,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, bytes]:
    """What one machine writes."""
    written, _ = record(footage, captioner, options, {}, tmp_path_factory.mktemp("out") / "alone")
    assert written["journal/street.jsonl"].count(b"\n") > 4
    return written


def test_the_record_is_the_same_and_nothing_is_looked_at_twice(
    footage: ReplayInput,
    captioner: Grounded,
    options: ReplayOptions,
    alone: dict[str, bytes],
    tmp_path: Path,
) -> None:
    cuts = stretches_of(footage, options, 10.0)
    assert len(cuts) == 4
    found, sights = thresholds_of(footage, options), Sights()
    for cut in cuts:
        sights |= sights_of(footage, options, captioner, found, cut)
    together, looked = record(footage, captioner, options, sights, tmp_path / "out")
    assert together == alone
    assert looked <= 0.1 * len(sights)


def test_wrong_guesses_change_nothing(
    footage: ReplayInput,
    captioner: Grounded,
    options: ReplayOptions,
    alone: dict[str, bytes],
    tmp_path: Path,
) -> None:
    """Another idea of when a pair ends: some of its pictures are wanted, and others are not there."""
    pairs = replace(options.plan.pairs, settle_s=1.5, max_wait_s=2.0)
    other = replace(options, plan=replace(options.plan, pairs=pairs))
    odd = sights_of(footage, other, captioner, thresholds_of(footage, options), Stretch(11.0, 20.0))
    assert odd
    together, looked = record(footage, captioner, options, odd, tmp_path / "out")
    assert together == alone
    assert looked > 0


@pytest.mark.parametrize("begin", [0.0, 7.3, 20.0])
def test_a_stretch_has_the_frames_of_the_file(footage: ReplayInput, begin: float) -> None:
    def frames(stretch: Stretch) -> dict[float, bytes]:
        source = VideoSource(footage.paths, SourceOptions(), "street", stretch=stretch)
        return {f.time.timestamp(): f.image.tobytes() for f in source}

    whole, part = frames(Stretch()), frames(Stretch(begin, begin + 12))
    assert part.items() <= whole.items()
    asked = {t for t in whole if begin <= t <= begin + 12}
    assert asked <= part.keys()
    assert len(part) <= len(asked) + 4 * 2  # from the keyframe on, of which there is one in 4 s


def test_what_is_cut(footage: ReplayInput, options: ReplayOptions) -> None:
    def cuts(each: ReplayInput = footage, **changed: object) -> int:
        return len(stretches_of(each, replace(options, **changed), 10.0))  # type: ignore[arg-type]

    assert cuts() == 4
    assert cuts(span=Span(timedelta(seconds=10), timedelta(seconds=30))) == 2
    assert cuts(span=Span(None, timedelta(seconds=9))) == 0
    fast = replace(options.plan, source=replace(options.plan.source, fast=True))
    assert cuts(plan=fast) == 0
    assert cuts(ReplayInput("street", footage.paths * 2)) == 0
    assert cuts(ReplayInput("street", (footage.paths[0].with_name("absent.mp4"),))) == 0
