"""A daemon before whose cameras nothing happens holds no captioner, and READY still means that it works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from daemon_here import operated, running, until
from safetensors import safe_open
from safetensors.numpy import save_file

from daemon.health.health import Phase
from daemon.service.proof import CaptionerProof, CaptionerProofError
from models import read_label
from models.captioner import Captioner
from pipeline.pairs import FramePair, pair_l2
from pipeline.sources import Clock, Frame
from pipeline.sources.picture import LazyPicture

LIGHT = """
import sys
import daemon.service.daemon, daemon.threads.cameras, pipeline.sources.rtsp, pipeline.sources.fast
heavy = {"torch", "numba", "llvmlite", "daemon.threads.narrator"} & set(sys.modules)
assert not heavy, heavy
"""


def test_what_a_quiet_daemon_loads_needs_neither_torch_nor_numba() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def frame(second: int, *, box: bool) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if box:
        image[90:160, 30:100] = 230
    time = datetime(2026, 7, 1, 12, 0, second, tzinfo=UTC)
    return Frame("away", time, Clock.RECEIVE, second, image[..., 0].copy(), LazyPicture(lambda: image))


def test_it_is_ready_once_the_captioner_was_tried_and_wakes_for_the_first_pair(
    configure: Callable[..., Path],
) -> None:
    with running(configure()) as daemon:
        phases: list[bool] = []

        def operate() -> None:
            until(daemon, lambda: daemon.cameras.tried)
            phases.append(daemon.health.phase is Phase.WATCHING and not daemon.proof.holds())
            until(daemon, lambda: daemon.health.phase is Phase.WATCHING)
            assert daemon.proof.holds()
            assert daemon.narrating.captioning is None
            before, after = frame(1, box=False), frame(2, box=True)
            pair = FramePair(before, after, pair_l2(before, after))
            assert daemon.queue.put("away", pair, wait=False)
            until(daemon, lambda: daemon.narrations["away"])

        operated(daemon, operate)
        assert phases == [False]
        assert daemon.narrating.captioning is not None
        assert "appeared" in next(iter(daemon.journals["away"])).text


def test_footage_keeps_it_awake(configure: Callable[..., Path], clip: Path) -> None:
    with running(configure(f"  room: {{url: {clip}}}\n")) as daemon:
        assert daemon.proof is None
        assert daemon.narrating.captioning is not None


def test_a_captioner_that_cannot_work_ends_it_before_it_is_ready(
    configure: Callable[..., Path], checkpoint: Path, tmp_path: Path
) -> None:
    with safe_open(checkpoint, framework="np") as file:
        kept = {name: file.get_tensor(name) for name in list(file.keys())[1:]}
        metadata = file.metadata()
    broken = tmp_path / "broken.safetensors"
    save_file(kept, broken, metadata=metadata)
    config = configure()
    config.write_text(config.read_text().replace(str(checkpoint), str(broken)))
    with running(config) as daemon:
        with pytest.raises(CaptionerProofError, match=r"does not work here: .*missing"):
            operated(daemon, lambda: until(daemon, lambda: False))
        assert daemon.health.phase is Phase.OPENING


def test_what_was_told_within_the_hour_keeps_it_awake(configure: Callable[..., Path]) -> None:
    with running(configure()) as daemon:
        before, after = (frame(k, box=k == 2) for k in (1, 2))
        now = datetime.now(UTC)
        late = replace(after, time=now)
        pair = FramePair(replace(before, time=now - timedelta(seconds=1)), late, pair_l2(before, after))
        assert daemon.queue.put("away", pair, wait=False)
        operated(daemon, lambda: until(daemon, lambda: daemon.narrations["away"]))
    with running(configure()) as again:
        assert again.proof is None
        assert again.narrating.captioning is not None


def test_a_proof_that_is_not_waited_for_ends(checkpoint: Path) -> None:
    proof = CaptionerProof(checkpoint, "cpu")
    assert not proof.holds()
    proof.stop()
    assert proof._process.returncode is not None


def test_a_label_says_what_the_captioner_says(checkpoint: Path, captioner: Captioner) -> None:
    label = read_label(checkpoint)
    assert (label.name, label.sha256, label.record) == (captioner.name, captioner.sha256, captioner.record)
