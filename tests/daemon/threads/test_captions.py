"""Whatever happens to the captioner, the change is told: by smaller batches, by its copy, by its clusters."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

import pytest
import torch
from box_pairs import pair
from pretend_device import pretend_device
from still import shown

from daemon.config.plan import CameraPlan
from daemon.threads import captions as module
from daemon.threads.captions import Captioning
from daemon.threads.narrator import event_context
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence
from pipeline.narration.events import EventContext
from pipeline.narration.narration import FAILED, Narration
from pipeline.pairs import FramePair
from pipeline.sources import Clock

TOLD = "A box has appeared."
Describe = Callable[[list[PairInput], DescribeOptions | None], list[list[Sentence]]]


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


def rounded(narrations: list[Narration | None]) -> list[Narration | None]:
    """Up to rounding: with several threads a batch adds in another order than its parts."""

    def of(sentence: Sentence) -> Sentence:
        numbers = {"confidence": round(sentence.confidence, 4), "salience": round(sentence.salience, 4)}
        return replace(sentence, **numbers)  # type: ignore[arg-type]

    return [n and replace(n, sentences=tuple(map(of, n.sentences))) for n in narrations]


def manner(captioner: Captioner) -> EventContext:
    return event_context(CameraPlan("room", "rtsp://10.0.0.5/"), captioner)


def test_a_batch_without_room_is_halved(captioner: Captioner) -> None:
    small, asked = failing(
        captioner,
        lambda pairs: torch.OutOfMemoryError("CUDA out of memory") if len(pairs) > 2 else None,
    )
    captioning = Captioning(small)
    batch = [proposed(4 * k) for k in range(8)]
    whole = rounded(Captioning(captioner).narrate(batch, manner(captioner)))
    assert rounded(captioning.narrate(batch, manner(small))) == whole
    assert asked == [8, 4, 2, 2, 4, 2, 2]
    assert not captioning.fallbacks


@pytest.mark.logs_errors
def test_a_pair_that_the_captioner_fails_on_is_told_by_its_clusters_alone(
    captioner: Captioner, caplog: pytest.LogCaptureFixture
) -> None:
    marked = proposed(8)
    wide = marked.after.image.copy()
    wide[10:20, 10:20] = 255

    def fails(pairs: list[PairInput]) -> Exception | None:
        white = any(pair.views[1].max() == 255 for pair in pairs)
        return RuntimeError("rtsp://admin:hunter2@10.0.0.5/ is odd") if white else None

    odd, _ = failing(captioner, fails)
    last = replace(shown(wide, camera="room", clock=Clock.RTCP), time=marked.after.time)
    batch = [proposed(0), proposed(4), FramePair(marked.before, last, 9.0), proposed(12)]
    captioning = Captioning(odd)
    for _ in range(2):
        narrations = told(captioning.narrate(batch, manner(odd)))
        assert [fallback for _, fallback in narrations] == ["", "", FAILED, ""]
        assert narrations[2][0].startswith("Something has changed")
    assert captioning.fallbacks == {"room": 2}
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1  # it goes on, and is told once
    assert "hunter2" not in errors[0] + captioning.error
    assert "is odd" in captioning.error


def test_what_the_gpu_cannot_do_is_done_by_the_copy_on_the_cpu(
    captioner: Captioner, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, asked = failing(captioner, lambda _: RuntimeError("CUDA error: device-side assert triggered"))
    captioning = Captioning(broken)
    captioning._spare = captioner  # made by itself where the captioner is on a GPU
    batch = [proposed(0), proposed(4)]
    whole = rounded(Captioning(captioner).narrate(batch, manner(captioner)))
    assert rounded(captioning.narrate(batch, manner(broken))) == whole
    assert asked == [2, 1]
    assert rounded(captioning.narrate(batch, manner(broken))) == whole
    assert asked == [2, 1]  # not asked again for now
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    monkeypatch.setattr(module, "monotonic", lambda: 1e12)
    assert rounded(captioning.narrate(batch, manner(broken))) == whole
    assert asked == [2, 1, 2, 1]


@pytest.mark.logs_errors
def test_a_pair_whose_picture_cannot_be_read_spoils_no_other(
    captioner: Captioner, caplog: pytest.LogCaptureFixture
) -> None:
    captioning = Captioning(captioner)
    batch = [proposed(0), proposed(4, broken=True), proposed(8)]
    narrations = captioning.narrate(batch, manner(captioner))
    assert [n and n.text for n in narrations] == [TOLD, None, TOLD]
    assert "hunter2" not in caplog.text
    assert "cannot be decoded" in caplog.text


def test_a_captioner_elsewhere_tells_the_same_and_its_copy_waits_on_the_cpu(captioner: Captioner) -> None:
    batch = [proposed(4), proposed(8)]
    here = told(Captioning(captioner).narrate(batch, manner(captioner)))
    with pretend_device() as device:
        away = copy.deepcopy(captioner).to(device)
        captioning = Captioning(away)
        assert told(captioning.narrate(batch, manner(away))) == here
        assert captioning.error == ""
        assert captioning._spare is not None
        assert captioning._spare.device == "cpu"


@pytest.mark.gpu
def test_a_gpu_without_room_costs_no_narration(captioner: Captioner) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    on_gpu = copy.deepcopy(captioner).to("cuda")
    captioning = Captioning(on_gpu)
    batch = [proposed(4 * k) for k in range(32)]
    captioning.narrate(batch[:1], manner(on_gpu))
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        assert told(captioning.narrate(batch, manner(on_gpu))) == [(TOLD, "")] * len(batch)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "out of memory" in captioning.error
