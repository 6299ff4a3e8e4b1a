"""Whatever happens to the captioner, the change is told: by smaller batches, by its copy, by its clusters."""

import copy
import logging
import multiprocessing
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
from pretend_device import pretend_device
from still import pair, shown

from daemon.config.plan import CameraPlan
from daemon.threads import captioning as module
from daemon.threads.camera_narrator import event_context
from daemon.threads.captioning import Captioning, try_out
from models import load_captioner
from models.captioner import Captioner, DescribeOptions, PairInput
from models.grounded.grounded import Grounded
from pipeline.narration.batch import RegionDetector
from pipeline.narration.narration import FAILED, Narration
from pipeline.pairs import FramePair
from pipeline.sources import Clock

TOLD = "A box has appeared."


def proposed(t: float, *, broken: bool = False) -> FramePair:
    return pair(t, clock=Clock.RTCP, broken=broken)


def failing(
    captioner: Captioner, fails: Callable[[list[PairInput]], Exception | None]
) -> tuple[Captioner, list[int]]:
    """A copy of the captioner that fails when told to, and the sizes of the batches it was asked."""
    one, asked = copy.deepcopy(captioner), list[int]()
    whole: Any = type(one).describe

    def describe(self: Captioner, pairs: list[PairInput], options: DescribeOptions | None = None) -> Any:
        asked.append(len(pairs))
        if error := fails(pairs):
            raise error
        return whole(self, pairs, options)

    one.describe = MethodType(describe, one)  # type: ignore[method-assign]
    return one, asked


def told(narrations: list[Narration | None]) -> list[tuple[str, str]]:
    return [(n.text, n.fallback) for n in narrations if n]


def narrate(captioning: Captioning, pairs: list[FramePair], captioner: Captioner) -> list[Narration | None]:
    context = event_context(CameraPlan("room", "rtsp://10.0.0.5/"), captioner)
    return [captioning.narrate(each, context) for each in pairs]


@pytest.mark.logs_errors
def test_frames_without_room_are_detected_in_smaller_batches_and_one_that_fails_spoils_no_other(
    captioner, monkeypatch
):
    asked = list[int]()

    def detect(images: list[int], *_: object) -> list[int]:
        asked.append(len(images))
        if len(images) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if 5 in images:
            raise ValueError("rtsp://admin:hunter2@10.0.0.5/ is odd")
        return [10 * each for each in images]

    monkeypatch.setattr(module, "detect", detect)
    captioning = Captioning(captioner)
    found = captioning.detect([(SimpleNamespace(small=n), RegionDetector()) for n in range(8)])  # type: ignore[misc]
    assert found == [0, 10, 20, 30, 40, None, 60, 70]
    assert asked == [8, 4, 2, 2, 4, 2, 1, 1, 2]
    assert captioning.error == "ValueError: rtsp://***@10.0.0.5/ is odd"


@pytest.mark.logs_errors
def test_a_pair_that_the_captioner_fails_on_is_told_by_its_clusters_alone(captioner, caplog):
    marked = proposed(8)
    wide = marked.after.image.copy()
    wide[10:20, 10:20] = 255

    def fails(pairs: list[PairInput]) -> Exception | None:
        white = any(pair.views[1].max() == 255 for pair in pairs)
        return RuntimeError("rtsp://admin:hunter2@10.0.0.5/ is odd") if white else None

    odd, _ = failing(captioner, fails)
    last = replace(shown(wide, camera="room", clock=Clock.RTCP), time=marked.after.time)
    captioning = Captioning(odd)
    for _ in range(2):
        (narration,) = told(narrate(captioning, [FramePair(marked.before, last, 9.0)], odd))
        assert narration[0].startswith("Something has changed")
        assert narration[1] == FAILED
        assert "is odd" in captioning.error
    assert told(narrate(captioning, [proposed(12)], odd)) == [(TOLD, "")]
    assert (captioning.fallbacks, captioning.error) == ({"room": 2}, "")
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1  # it goes on, and is told once
    assert "hunter2" not in errors[0]


def test_what_the_gpu_cannot_do_is_done_by_the_copy_on_the_cpu(captioner, caplog):
    broken, asked = failing(captioner, lambda _: RuntimeError("CUDA error: device-side assert triggered"))
    captioning = Captioning(broken)
    captioning._spare = captioner  # made by itself where the captioner is on a GPU
    batch = [proposed(0), proposed(4)]
    whole = narrate(Captioning(captioner), batch, captioner)
    for _ in range(2):
        assert narrate(captioning, batch, broken) == whole
    assert asked == [1] * 4  # it may be well again
    assert [r.levelname for r in caplog.records] == ["WARNING"]


@pytest.mark.logs_errors
def test_a_pair_whose_picture_cannot_be_read_is_left_out(captioner, caplog):
    captioning = Captioning(captioner)
    narrations = narrate(captioning, [proposed(0), proposed(4, broken=True), proposed(8)], captioner)
    assert [n and n.text for n in narrations] == [TOLD, None, TOLD]
    assert "hunter2" not in caplog.text
    assert "cannot be decoded" in caplog.text


def test_a_captioner_elsewhere_tells_the_same_and_its_copy_waits_on_the_cpu(captioner):
    batch = [proposed(4), proposed(8)]
    here = told(narrate(Captioning(captioner), batch, captioner))
    with pretend_device() as device:
        away = copy.deepcopy(captioner).to(device)
        captioning = Captioning(away)
        assert told(narrate(captioning, batch, away)) == here
        assert captioning.error == ""
        assert captioning._spare is not None
        assert captioning._spare.device == "cpu"


@pytest.mark.gpu
def test_a_gpu_without_room_costs_no_narration(captioner, caplog):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    on_gpu = copy.deepcopy(captioner).to("cuda")
    captioning = Captioning(on_gpu)
    pairs = [proposed(4 * k) for k in range(4)]
    narrate(captioning, pairs[:1], on_gpu)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1e-9)
    try:
        assert told(narrate(captioning, pairs, on_gpu)) == [(TOLD, "")] * len(pairs)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "out of memory" in caplog.text


def test_a_captioner_is_tried_in_a_process_of_its_own(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    try_out(captioner)
    assert captioner.detector._session is None, "it is loaded when something moves"
    captioner.take_detector(b"no graph")
    with pytest.raises(Exception, match="PROTOBUF"):  # the library names no public error
        try_out(captioner)


def test_a_trial_that_hangs_is_ended_and_made_here(monkeypatch):
    warmed = []

    def warm_up(captioner: object) -> None:
        if multiprocessing.parent_process():
            threading.Event().wait()
        warmed.append(captioner)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("daemon.threads.captioning.warm_up", warm_up)
    monkeypatch.setattr("daemon.threads.captioning._TRIAL_S", 0.2)
    captioner = load_captioner()
    try_out(captioner)
    assert warmed == [captioner]
