"""The narrator tells once what goes on, counts what it leaves out, and tells the same live and in replay."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from daemon.config.plan import CameraPlan
from daemon.service import metrics
from daemon.threads import narrator as module
from daemon.threads.accounts import ALONE, FAILED, MERGED, NOTHING_CHANGED, TOLD_ALREADY
from daemon.threads.narrator import JournalledPair, Narrator
from daemon.threads.pair_queue import PairQueue, Proposed
from models.captioner import Captioner
from pipeline.distance import l2_rgb
from pipeline.journal import Journal, JournalError, SegmentLimits, read_journal, verify
from pipeline.pairs import FramePair, PairOptions
from pipeline.policy.limits import LimitOptions
from pipeline.sources import Clock, Frame
from tests.balanced import balanced

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
    assert telling.untold("room") == {"there already": 2}
    (gone,) = telling.tell([pair(12, 16, GO)])
    assert (gone.record.text, gone.record.suppressed) == ("The box is gone.", 2)
    (back,) = telling.tell([pair(16, 20, COME_BACK)])
    assert (back.record.text, back.record.suppressed) == ("A box has appeared.", 0)
    assert verify([tmp_path]).ok


def test_each_camera_has_its_own_story(captioner: Captioner, tmp_path: Path) -> None:
    telling = narrator(captioner, tmp_path, cameras="room yard")
    told = telling.tell([pair(0, 4, COME), pair(1, 5, COME, "yard"), pair(4, 8, COME)])
    assert [(t.record.camera, t.record.seq) for t in told] == [("room", 1), ("yard", 1)]
    assert telling.untold("room") == {"there already": 1}


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


def limited(
    captioner: Captioner, folder: Path, *, live: bool = False, **limits: float
) -> tuple[PairQueue, Narrator]:
    options = LimitOptions(**{"cooldown_s": None, "max_per_hour": None, **limits})  # type: ignore[arg-type]
    queue = PairQueue(["room"], capacity=100)
    journals = {"room": Journal(folder, "room", fsync=False)}
    plan = CameraPlan("room", "room.mp4", limits=options)
    return queue, Narrator(captioner, [plan], journals, live=live, accounts=queue.accounts)


def told_of(queue: PairQueue, telling: Narrator, *pairs: Proposed) -> list[JournalledPair]:
    """Puts pairs into the queue and narrates them; nothing is lost on the way."""
    for each in pairs:
        queue.put("room", each.pair, wait=False)
    told = telling.tell(queue.take(len(pairs), 0.0))
    assert balanced(queue.accounts.of("room"))
    return told


# A box that comes and goes all the time, so slowly that no story holds it together.
FLOOD = [pair(60 * k, 60 * k + 4, GO if k % 2 else COME) for k in range(12)]


def test_a_flood_is_capped_and_the_next_record_says_how_much_was_held_back(
    captioner: Captioner, tmp_path: Path
) -> None:
    queue, telling = limited(captioner, tmp_path, max_per_hour=4)
    told = told_of(queue, telling, *FLOOD)
    assert [t.record.event for t in told] == ["change"] * 4 + ["cap_reached"]
    assert [t.record.suppressed for t in told] == [0, 0, 0, 0, 0]
    ended, next_hour = told_of(queue, telling, pair(3600, 3604, COME))
    assert (ended.record.event, ended.record.suppressed) == ("cap_ended", 8)
    assert (next_hour.record.event, next_hour.record.suppressed) == ("change", 0)
    account = queue.accounts.of("room")
    assert (account.proposed, account.waiting) == (13, 0)
    assert (account.published, account.suppressed) == ({ALONE: 5}, {"hourly cap": 8})


def test_a_cooldown_holds_back_what_is_of_one_kind(captioner: Captioner, tmp_path: Path) -> None:
    queue, telling = limited(captioner, tmp_path, cooldown_s=300)
    told = told_of(queue, telling, *FLOOD)
    assert [(t.record.after.moment - START).total_seconds() for t in told] == [4, 64, 364, 424]
    assert [t.record.suppressed for t in told] == [0, 0, 4, 0]
    assert telling.untold("room") == {"cooldown": 8}


def test_every_pair_has_one_fate(captioner: Captioner, tmp_path: Path) -> None:
    queue, telling = limited(captioner, tmp_path, cooldown_s=30)
    still = pair(70, 74, (False, False))
    told_of(queue, telling, pair(0, 4, COME), pair(4, 8, COME), pair(60, 64, GO), still, pair(80, 84, GO))
    account = queue.accounts.of("room")
    assert account.published == {ALONE: 2}
    assert account.suppressed == {TOLD_ALREADY: 1, NOTHING_CHANGED: 1, "cooldown": 1}
    assert not account.dropped


def test_what_follows_soon_is_one_record_from_its_first_frame_to_its_last(
    captioner: Captioner, tmp_path: Path
) -> None:
    queue, telling = limited(captioner, tmp_path, merge_s=61)
    told = told_of(queue, telling, *FLOOD[:5])
    assert queue.accounts.of("room").waiting == 1  # the last one is held open
    told += telling.finish()
    assert [t.record.text for t in told] == [
        "A box has appeared. The box is gone.",
        "A box has appeared. The box is gone.",
        "A box has appeared.",
    ]
    first = told[0]
    assert (first.record.before.pts, first.record.after.pts) == (0, 64)
    assert (first.pair.before.pts, first.pair.after.pts) == (0, 64)
    assert queue.accounts.of("room").published == {ALONE: 3, MERGED: 2}
    assert [r.seq for r in read_journal(tmp_path / "room.jsonl")] == [1, 2, 3]
    assert verify([tmp_path]).ok


def test_merged_or_limited_live_and_replay_tell_the_same(captioner: Captioner, tmp_path: Path) -> None:
    limits = {"merge_s": 61.0, "cooldown_s": 150.0, "max_per_hour": 3}
    queue, telling = limited(captioner, tmp_path / "replay", **limits)
    whole = told_of(queue, telling, *FLOOD) + telling.finish()
    queue, telling = limited(captioner, tmp_path / "live", live=True, **limits)
    single = [t for each in FLOOD for t in (*told_of(queue, telling, each), *telling.settle())]
    single += telling.finish()
    members = [
        [t.record.model_dump(exclude={"latency_ms", "prev", "hash"}) for t in told]
        for told in (whole, single)
    ]
    assert members[0] == members[1]
    assert len(whole) == 3


def test_a_record_held_open_is_journalled_when_nothing_can_follow(
    captioner: Captioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, telling = limited(captioner, tmp_path, live=True, merge_s=2)
    assert told_of(queue, telling, pair(0, 4, COME)) == []
    assert telling.settle() == []
    monkeypatch.setattr(module, "monotonic", lambda: float("inf"))
    assert telling.settle(waiting={"room"}) == []  # its next pair is on its way
    assert [t.record.text for t in telling.settle()] == ["A box has appeared."]
    assert queue.accounts.of("room").waiting == 0


def test_a_record_is_held_open_until_the_next_pair_was_watched(
    captioner: Captioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next change may come at the end of the window; its pair settles and is watched after that."""
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    queue, telling = limited(captioner, tmp_path, live=True, merge_s=2)
    assert told_of(queue, telling, pair(0, 4, COME)) == []
    options = PairOptions()
    now += 2 + options.max_wait_s + options.watch_s
    assert telling.settle() == []
    now += 2
    assert len(telling.settle()) == 1


def test_another_plan_does_not_forget_what_was_told(captioner: Captioner, tmp_path: Path) -> None:
    queue, telling = limited(captioner, tmp_path, max_per_hour=1)
    assert len(told_of(queue, telling, pair(0, 4, COME))) == 1
    telling.add(CameraPlan("room", "room.mp4", limits=LimitOptions(cooldown_s=None, max_per_hour=2)))
    told = told_of(queue, telling, *FLOOD[1:4])
    assert [t.record.event for t in told] == ["change", "cap_reached"]


def test_a_restart_is_no_way_around_a_limit(captioner: Captioner, tmp_path: Path) -> None:
    options = LimitOptions(cooldown_s=150, max_per_hour=3)
    stories = []
    for clock in (Clock.RTCP, Clock.FILE):
        told = []
        for each in FLOOD:  # a process for each pair
            frames = (replace(frame, clock=clock) for frame in (each.pair.before, each.pair.after))
            with Journal(tmp_path / clock, "room", fsync=False) as journal:
                plan = CameraPlan("room", "rtsp://10.0.0.5/", limits=options)
                telling = Narrator(captioner, [plan], {"room": journal}, live=True)
                told += telling.tell([Proposed(FramePair(*frames, 9.0))])
        stories.append([(t.record.after.moment - START).total_seconds() for t in told])
        assert sum(t.record.event == "cap_reached" for t in told) == (clock is Clock.RTCP)
    assert stories == [[4, 64, 244, 304], [4 + 60 * k for k in range(12)]]  # footage may be read again


def test_a_restart_past_midnight_knows_the_last_hour(captioner: Captioner, tmp_path: Path) -> None:
    plan = CameraPlan("room", "rtsp://10.0.0.5/", limits=LimitOptions(cooldown_s=200, max_per_hour=4))
    told = []
    for k, each in enumerate(FLOOD):
        shift = timedelta(minutes=-5)  # two before midnight, one right after it, at the cooldown
        frames = (
            replace(f, clock=Clock.RTCP, time=f.time + shift) for f in (each.pair.before, each.pair.after)
        )
        with Journal(tmp_path, "room", fsync=False, limits=SegmentLimits(daily=True)) as journal:
            telling = Narrator(captioner, [plan], {"room": journal}, live=True)
            told += [(k, t.record.event) for t in telling.tell([Proposed(FramePair(*frames, 9.0))])]
    assert len(list(tmp_path.glob("room*.jsonl"))) == 2
    assert told == [(0, "change"), (1, "change"), (4, "change"), (5, "change"), (8, "cap_reached")]


def capped_metric(queue: PairQueue, telling: Narrator) -> dict[str, float]:
    daemon = SimpleNamespace(
        cameras=SimpleNamespace(watched={}),
        narrating=SimpleNamespace(
            seconds=0.0, batches=0, captioning=telling.captioning, capped=telling.capped
        ),
        queue=queue,
        journals=telling._journals,
    )
    (metric,) = (m for m in metrics._of_pairs(daemon) if m.name == "narrated_capped")  # type: ignore[arg-type]
    return {sample.labels["camera"]: sample.value for sample in metric.samples}


def test_a_camera_at_its_hourly_cap_says_so_and_when_it_is_heard_again(
    captioner: Captioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    queue, telling = limited(captioner, tmp_path, live=True, max_per_hour=4)
    assert not telling.capped
    *_, reached = told_of(queue, telling, *FLOOD)
    assert capped_metric(queue, telling) == {"room": 1.0}
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "camera room: 4 records within an hour: nothing more is told until 01:01 UTC" in warning
    assert reached.record.text in warning
    assert reached.record.until == "2024-03-01T01:00:04.000000Z"
    assert [(c.type, c.object, c.count) for c in reached.record.counts or ()] == [
        ("appeared", "box", 2),
        ("disappeared", "box", 2),
    ]
    assert (reached.pair.after.pts, reached.record.after.pts, reached.record.latency_ms) == (244, 244, None)
    now += 3604 - 664
    assert telling.settle() == []  # a pair may still be on its way
    now += 10
    assert telling.settle(waiting={"room"}) == []
    (ended,) = telling.settle()
    assert capped_metric(queue, telling) == {"room": 0.0}
    assert ended.record.text == (
        "Held back from 00:04 to 00:11 UTC by the hourly limit: box appeared (4), box disappeared (4)."
    )
    assert sum(c.count for c in ended.record.counts or ()) == 8
    assert (ended.record.event, ended.record.after.pts) == ("cap_ended", 664)
    assert telling.settle() == telling.finish() == []
    assert verify([tmp_path]).ok
    assert queue.accounts.of("room").published == {ALONE: 4}


def test_what_was_held_back_is_told_at_the_end(captioner: Captioner, tmp_path: Path) -> None:
    for live in (False, True):
        queue, telling = limited(captioner, tmp_path / f"{live}", live=live, max_per_hour=4)
        told_of(queue, telling, *FLOOD[:7])
        assert [(t.record.event, t.record.suppressed) for t in telling.finish()] == [("cap_ended", 3)]


def test_what_is_told_without_the_captioner_does_not_use_the_cap_up(
    captioner: Captioner, tmp_path: Path
) -> None:
    _, telling = limited(captioner, tmp_path, max_per_hour=4)
    late = [replace(each, late=True) for each in FLOOD[:6]]
    told = telling.tell(late)
    assert [(t.record.event, t.record.fallback) for t in told] == [
        *[("change", "late")] * 4,
        ("cap_reached", "late"),
    ]
    assert "4 records without the captioner" in told[-1].record.text
    assert [t.record.fallback for t in telling.tell(FLOOD[6:10])] == [None] * 4


def test_late_pairs_are_marked_in_the_record(captioner: Captioner, tmp_path: Path) -> None:
    telling = narrator(captioner, tmp_path)
    late, timely = (Proposed(pair(t, t + 4, COME).pair, late=t == 0) for t in (0, 60))
    told = telling.tell([late, timely])
    assert [(t.record.text, t.record.fallback) for t in told] == [
        ("Something has changed in the middle.", "late"),
        ("A box has appeared.", None),
    ]


@pytest.mark.logs_errors
def test_a_journal_that_takes_nothing_more_stops_a_replay_and_no_daemon(
    captioner: Captioner, tmp_path: Path
) -> None:
    for live in (False, True):
        queue, telling = limited(captioner, tmp_path / f"{live}", live=live)
        telling._journals["room"].close()
        if live:
            assert told_of(queue, telling, *FLOOD[:3]) == []
        else:
            with pytest.raises(JournalError):
                told_of(queue, telling, *FLOOD[:3])
        account = queue.accounts.of("room")
        assert (account.waiting, account.dropped, balanced(account)) == (0, {FAILED: 3}, True)
