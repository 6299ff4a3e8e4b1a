"""Replays judged by tracks.py: what it prints is read right, and sums are sums."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

XML = """<annotations>
<track id="0"><box frame="25" xtl="50" ytl="100" xbr="90" ybr="140" outside="0"/>
{boxes}</track>
<track id="1"><box frame="500" xtl="0" ytl="0" xbr="1" ybr="1" outside="0"/></track>
</annotations>"""
BOX = [50 / 352, 100 / 288, 40 / 352, 40 / 288]


@pytest.fixture
def clip(replays: ModuleType, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A car that enters after 4 s, at 25 frames a second, and stays to 16 s."""
    folder = tmp_path / "annotations"
    folder.mkdir()
    stays = "".join(
        f'<box frame="{k}" xtl="50" ytl="100" xbr="90" ybr="140" outside="0"/>' for k in range(100, 400)
    )
    (folder / "yard.xml").write_text(XML.format(boxes=stays).replace('frame="25"', 'frame="100"'))
    monkeypatch.setattr(replays, "DATA", tmp_path)
    return replays.Clip("yard.mp4", "yard.xml", ("--fps", "25", "--size", "352x288", "--family", "vehicle"))


def records(path: Path, *sentences: dict[str, Any]) -> Path:
    sides = {
        side: {"time": f"2026-01-01T00:00:{s}.000000Z"} for side, s in (("before", "02"), ("after", "06"))
    }
    path.write_text("".join(json.dumps({**sides, "sentences": [s]}) + "\n" for s in sentences))
    return path


def sentence(
    kind: str, confidence: float, thing: str = "car", box: list[float] | None = None
) -> dict[str, Any]:
    side = "box_before" if kind == "disappeared" else "box_after"
    text = f"A {thing} has {kind}."
    return {"text": text, "type": kind, "object": thing, "confidence": confidence, side: box or BOX}


@pytest.mark.footage
def test_true_and_false_sentences_are_told_apart_with_their_confidence(
    replays: ModuleType, clip: Any, tmp_path: Path
) -> None:
    told = records(
        tmp_path / "told.jsonl",
        sentence("appeared", 0.81),
        sentence("disappeared", 0.32),
        sentence("appeared", 0.55, "person"),
        sentence("appeared", 0.66, box=[5.0, 5.0, 0.1, 0.1]),
    )
    truth = replays.judged(told, clip)
    assert (truth.true, truth.false, truth.unknown, truth.other) == (1, 1, 1, 1)
    assert sorted(truth.judged) == [(0.32, False), (0.81, True)]
    assert truth.entrances[0] == 1
    assert truth.precision == 0.5
    assert sum(truth.reasons.values()) == 1


@pytest.mark.footage
def test_a_silent_replay_misses_every_event(replays: ModuleType, clip: Any, tmp_path: Path) -> None:
    truth = replays.judged(records(tmp_path / "told.jsonl"), clip)
    assert (truth.true, truth.false, truth.entrances) == (0, 0, (0, 1))
    assert math.isnan(truth.precision)
    assert truth.calibration is None


def test_clips_add_up(replays: ModuleType) -> None:
    one = replays.Truth(3, 1, 2, 0, (1, 2), (0, 3), {"moved: another one": 1}, ((0.9, True), (0.2, False)))
    two = replays.Truth(1, 3, 0, 1, (2, 2), (1, 1), {"moved: another one": 2}, ((0.1, False),))
    both = replays.summed([one, two])
    assert (both.true, both.false, both.unknown, both.other) == (4, 4, 2, 1)
    assert (both.entrances, both.departures) == ((3, 4), (1, 4))
    assert both.reasons == {"moved: another one": 3}
    assert both.precision == 0.5
    assert both.calibration.auc == 1.0


@pytest.mark.footage
def test_the_five_clips_and_their_tracks_are_named_as_they_are(replays: ModuleType, clips: Path) -> None:
    assert replays.absent() == []
    nowhere = replays.Clip("none.mp4", "none.xml", ())
    assert replays.absent([nowhere]) == ["data/clips/none.mp4", "data/annotations/none.xml"]
