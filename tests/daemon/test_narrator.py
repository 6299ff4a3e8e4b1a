"""The narrator tells once what goes on, counts what it leaves out, and tells the same live and in replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from daemon.narrator import Narrator
from daemon.pair_queue import Proposed
from daemon.plan import CameraPlan
from models.captioner import Captioner
from pipeline.distance import l2_rgb
from pipeline.journal import Journal, verify
from pipeline.pairs import FramePair
from pipeline.sources import Clock, Frame

START = datetime(2024, 3, 1, tzinfo=UTC)
COME, GO, COME_BACK = (False, True), (True, False), (False, True)


class Still:
    def __init__(self, image: np.ndarray) -> None:
        self._image = image

    def rgb(self) -> np.ndarray:
        return self._image


def frame(t: float, box: bool, camera: str) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if box:
        image[70:130, 130:190] = 230
    time = START + timedelta(seconds=t)
    return Frame(camera, time, Clock.FILE, round(t), image[..., 0].copy(), Still(image))


def pair(before: float, after: float, boxes: tuple[bool, bool], camera: str = "room") -> Proposed:
    first, last = frame(before, boxes[0], camera), frame(after, boxes[1], camera)
    return Proposed(FramePair(first, last, l2_rgb(first.image, last.image)[0]))


def narrator(captioner: Captioner, folder: Path, *, live: bool = False, cameras: str = "room") -> Narrator:
    plans = [CameraPlan(name, "room.mp4") for name in cameras.split()]
    journals = {plan.name: Journal(folder, plan.name, fsync=False) for plan in plans}
    return Narrator(captioner, plans, journals, live=live)


def test_what_goes_on_is_counted_not_told(captioner: Captioner, tmp_path: Path) -> None:
    telling = narrator(captioner, tmp_path)
    first = telling.tell([pair(0, 4, COME), pair(4, 8, COME), pair(8, 12, COME)])
    assert [told.record.text for told in first] == ["A box has appeared."]
    assert telling.dropped == {"there already": 2}
    (gone,) = telling.tell([pair(12, 16, GO)])
    assert (gone.record.text, gone.record.suppressed) == ("The box is gone.", 2)
    (back,) = telling.tell([pair(16, 20, COME_BACK)])
    assert (back.record.text, back.record.suppressed) == ("A box has appeared.", 0)
    assert verify([tmp_path]).ok


def test_each_camera_has_its_own_story(captioner: Captioner, tmp_path: Path) -> None:
    telling = narrator(captioner, tmp_path, cameras="room yard")
    told = telling.tell([pair(0, 4, COME), pair(1, 5, COME, "yard"), pair(4, 8, COME)])
    assert [(t.record.camera, t.record.seq) for t in told] == [("room", 1), ("yard", 1)]
    assert telling.dropped == {"there already": 1}


def test_live_and_replay_tell_the_same_however_pairs_are_batched(
    captioner: Captioner, tmp_path: Path
) -> None:
    pairs = [pair(0, 4, COME), pair(4, 8, COME), pair(8, 12, GO), pair(14, 18, COME), pair(18, 22, GO)]
    whole = narrator(captioner, tmp_path / "replay").tell(pairs)
    live = narrator(captioner, tmp_path / "live", live=True)
    single = [told for each in pairs for told in live.tell([each])]
    assert [(t.record.id, t.record.text, t.record.suppressed) for t in single] == [
        (t.record.id, t.record.text, t.record.suppressed) for t in whole
    ]
    assert len(whole) == 4
