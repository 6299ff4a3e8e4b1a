"""The narrator reports once what goes on, holds messages and not the record, and is the same live and in
replay."""

import json
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from faulty_disks import disk_full_at
from narrations import narration
from unpublished import recorded

from daemon.config.plan import CameraPlan
from daemon.questions.asker import Asker
from daemon.questions.question import LocalTime, Span
from daemon.rules.rule import read_rule
from daemon.search.search import Search
from daemon.search.trial import try_rule
from daemon.service.health import Health, Phase
from daemon.threads.cameras import Cameras
from daemon.threads.narrator import Narrator
from daemon.threads.publication import Publishing
from daemon.threads.work_queue import (
    DROPPED,
    FAILED,
    PROPOSED,
    PUBLISHED,
    REPORTED,
    SUPPRESSED,
    UNCHANGED,
    Work,
    WorkQueue,
)
from models.boxes import Box
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence, packaged_tracking
from models.detections import Detections
from pipeline.camera_state import CameraState
from pipeline.distance import l2_rgb
from pipeline.gate import Gap, MotionFrame, Seen, watch
from pipeline.journal import Journal, JournalError, SegmentLimits
from pipeline.journal.verification import verify
from pipeline.limits import NO_LIMITS
from pipeline.loop import Heartbeats
from pipeline.pairs import FramePair
from pipeline.record import Record
from pipeline.sources import Clock, Frame, Polygon
from pipeline.sources.frame import LazyPicture
from pipeline.thresholds import PairThresholds
from pipeline.tracking import Event
from pipeline.tracking.tracks import OBJECTS

START = datetime(2024, 3, 1, tzinfo=UTC)
COME, GO = (False, True), (True, False)


@pytest.fixture(scope="module")
def captioner(captioner) -> Captioner:
    """What it has said of two pictures it says again without looking at them: they are few."""
    made, known = copy(captioner), dict[object, list[Sentence]]()

    def describe(pairs: list[PairInput], options: DescribeOptions) -> list[list[Sentence]]:
        keys = [(each.views.tobytes(), each.masks.tobytes(), options) for each in pairs]
        for key, each in zip(keys, pairs, strict=True):
            if key not in known:
                known[key] = captioner.describe([each], options)[0]
        return [known[key] for key in keys]

    made.describe = describe  # type: ignore[method-assign]
    return made


def frame(t: float, box: bool, camera: str) -> Frame:
    image = np.full((240, 320, 3), 90, np.uint8)
    if box:
        image[70:130, 130:190] = 230
    time = START + timedelta(seconds=t)
    return Frame(camera, time, Clock.FILE, round(t), image[..., 0].copy(), LazyPicture(lambda: image))


def pair(before: float, after: float, boxes: tuple[bool, bool], camera: str = "room") -> FramePair:
    first, last = frame(before, boxes[0], camera), frame(after, boxes[1], camera)
    return FramePair(first, last, l2_rgb(first.image, last.image)[0])


def plan(name: str = "room", url: str = "room.mp4", **limits: float) -> CameraPlan:
    options = replace(NO_LIMITS, **limits)  # type: ignore[arg-type]
    return CameraPlan(name, url, limits=options, tracked=False)


def narrator(
    captioner: Captioner, folder: Path, *plans: CameraPlan, live: bool = False, memory: Path | None = None
) -> Narrator:
    journals = {each.name: Journal(folder, each.name, fsync=False) for each in plans}
    return Narrator(captioner, plans, journals, live=live, memory=memory)


def seen(captioner: Captioner, folder: Path, *frames: Frame, masks: tuple[Polygon, ...] = ()) -> list[Record]:
    """What a process of a live camera journals that was watched at these frames."""
    camera = plan(url="rtsp://10.0.0.5/")
    camera = replace(camera, source=replace(camera.source, masks=masks))
    with Journal(folder, "room", fsync=False) as journal:
        telling = Narrator(captioner, [camera], {"room": journal}, live=True, memory=folder / "kept")
        return telling.process([Work(Seen(each)) for each in frames])


def process(telling: Narrator, pairs: Iterable[FramePair]) -> list[Record]:
    """Takes pairs through a queue; nothing is lost on the way."""
    queue = WorkQueue(["room", "yard"], capacity=100)
    queue.counters = telling.counters
    for each in pairs:
        queue.put(each.after.camera, each, wait=False)
    found = telling.process(queue.take(100))
    assert all(pairs >= 0 for pairs in queue.counters.waiting().values())
    return found


# A box that comes and goes all the time, so slowly that no story holds it together.
FLOOD = [pair(60 * k, 60 * k + 4, GO if k % 2 else COME) for k in range(12)]


def test_what_goes_on_is_reported_once_and_pairs_are_counted(captioner, tmp_path):
    telling = narrator(captioner, tmp_path, plan(cooldown_s=30))
    still, again = pair(70, 74, (False, False)), pair(80, 84, COME)
    found = process(telling, [pair(0, 4, COME), pair(4, 8, COME), pair(60, 64, GO), still, again])
    assert [each.text for each in found] == ["A box has appeared.", "The box is gone.", "A box has appeared."]
    assert telling.unreported("room") == {"there already": 1}
    assert +telling.counters.copy() == {
        ("room", PROPOSED, ""): 5,
        ("room", PUBLISHED, ""): 3,
        ("room", SUPPRESSED, REPORTED): 1,
        ("room", SUPPRESSED, UNCHANGED): 1,
    }
    assert verify([tmp_path]).ok


def test_pictures_are_let_go_with_the_work_that_looks_at_them(captioner, tmp_path):
    telling, made = narrator(captioner, tmp_path, plan()), list[bool]()

    def watched(frame: Frame) -> Frame:
        image = frame.image
        return replace(frame, picture=LazyPicture(lambda: made.append(True) or image, lambda _: image))

    shown = pair(0, 4, COME)
    shown = replace(shown, before=watched(shown.before), after=watched(shown.after))
    process(telling, [shown])
    assert len(made) == 2  # once each, however often they are looked at
    telling.process([Work(Seen(shown.after))])
    assert len(made) == 3
    assert shown.after.image is shown.after.image
    assert len(made) == 4


@pytest.mark.parametrize("limits", [{}, {"cooldown_s": 150.0, "max_per_hour": 5}])
def test_live_and_replay_are_the_same_however_pairs_are_batched(captioner, tmp_path, limits):
    whole = process(narrator(captioner, tmp_path / "replay", plan(**limits)), FLOOD)
    live = narrator(captioner, tmp_path / "live", plan(url="rtsp://10.0.0.5/", **limits), live=True)
    single = [found for each in FLOOD for found in process(live, [each])]
    members = [
        [each.model_dump(exclude={"latency_ms", "prev", "hash"}) for each in found]
        for found in (whole, single)
    ]
    assert members[0] == members[1]
    assert len(whole) == len(FLOOD)


def test_a_limit_holds_messages_and_the_record_has_everything(captioner, tmp_path, caplog):
    telling = narrator(captioner, tmp_path, plan(max_per_hour=4))
    found = process(telling, [*FLOOD, pair(3600, 3604, COME)])
    assert caplog.text.count("hourly limit") == 1
    assert [each.held for each in found] == [None] * 4 + ["hourly"] * 8 + [None]
    assert [each.suppressed for each in found] == [0, 0, 0, 0, *range(8), 8]
    free = process(narrator(captioner, tmp_path / "free", plan()), FLOOD)
    texts = [[(each.id, each.text) for each in some] for some in (found[:12], free)]
    assert texts[0] == texts[1]
    assert verify([tmp_path]).ok


def test_another_plan_forgets_nothing(captioner, tmp_path):
    telling = narrator(captioner, tmp_path, plan(max_per_hour=1))
    state = telling._cameras["room"].state
    state.saved, state.colours.by_track["t"] = {"version": 1}, Counter(["red"])
    state.summary.minutes.append({"entered vehicle": 6})
    process(telling, FLOOD[:1])
    telling.add(plan(max_per_hour=1, cooldown_s=1))
    assert process(telling, [pair(4, 8, COME)]) == []  # it was reported by the first plan
    state = telling._cameras["room"].state
    assert (state.saved, state.colours.by_track) == ({"version": 1}, {"t": Counter(["red"])})
    assert [*state.summary.minutes] == [{"entered vehicle": 6}]
    telling.add(plan(max_per_hour=2))
    assert telling.at_hourly_limit == frozenset()
    found = process(telling, FLOOD[1:4])
    assert [each.held for each in found] == [None, "hourly", "hourly"]
    assert telling.at_hourly_limit == {"room"}


def test_another_plan_names_what_was_learnt_before_the_start(captioner, tmp_path):
    seen(captioner, tmp_path, frame(0, False, "room"))
    camera = plan(url="rtsp://10.0.0.5/")
    with Journal(tmp_path, "room", fsync=False) as journal:
        telling = Narrator(captioner, [camera], {"room": journal}, live=True, memory=tmp_path / "kept")
        learnt = telling._cameras["room"].context.state_sha256
        telling.add(replace(camera, lower=20.0))
    assert telling._cameras["room"].context.state_sha256 == learnt
    assert learnt == sha256((tmp_path / "kept" / "room.json").read_bytes()).hexdigest()


@pytest.mark.parametrize(("clock", "held"), [(Clock.RTCP, True), (Clock.FILE, False)])
def test_a_restart_is_no_way_around_a_limit(captioner, tmp_path, clock, held):
    found = []
    for k, each in enumerate(FLOOD):  # a process for each pair; the second one is past midnight
        shift = timedelta(minutes=-1, seconds=-30)
        frames = (replace(f, clock=clock, time=f.time + shift) for f in (each.before, each.after))
        with Journal(tmp_path, "room", fsync=False, limits=SegmentLimits(daily=True)) as journal:
            camera = plan(url="rtsp://10.0.0.5/", max_per_hour=3)
            telling = Narrator(captioner, [camera], {"room": journal}, live=True)
            found += [(k, t.held) for t in telling.process([Work(FramePair(*frames, 9.0))])]
    assert found == [(k, "hourly" if held and k >= 3 else None) for k in range(12)]


@pytest.mark.logs_errors
@pytest.mark.parametrize("live", [False, True])
def test_a_journal_that_takes_nothing_more_stops_a_replay_and_no_daemon(captioner, tmp_path, live):
    telling = narrator(captioner, tmp_path, plan(url="rtsp://10.0.0.5/"), live=live)
    telling._cameras["room"].journal.close()
    if live:
        assert process(telling, FLOOD[:3]) == []
        assert telling.counters.copy()["room", DROPPED, FAILED] == 3
    else:
        with pytest.raises(JournalError):
            process(telling, FLOOD[:3])


@pytest.mark.logs_errors
@pytest.mark.parametrize("is_open", [True, False])
def test_what_fits_no_record_costs_itself_alone(captioner, tmp_path, caplog, is_open):
    if not is_open:
        (tmp_path / "room.jsonl").mkdir()
    journal = Journal(tmp_path, "room", fsync=False, hold=9)
    telling = Narrator(captioner, [plan(url="rtsp://10.0.0.5/")], {"room": journal}, live=True)
    local = LocalTime(UTC)
    rule = read_rule("r", "a car comes", Asker(("room",), frozenset(), local, ().__contains__))
    telling.set_rules("room", (rule,), local)
    odd = pair(0, 4, COME)
    found = process(telling, [replace(odd, after=replace(odd.after, pts=2**60)), pair(60, 64, GO)])
    assert [each.text for each in found] == ["The box is gone."] * is_open
    assert caplog.text.count("room: not recorded") == 1
    if not is_open:
        (tmp_path / "room.jsonl").rmdir()
        assert journal.flush()
    assert [each.text for each in recorded(journal)] == ["The box is gone."]


def test_a_while_without_the_daemon_is_a_gap(captioner, tmp_path):
    def start(second: float) -> list[Record]:
        return seen(captioner, tmp_path, *(frame(second + s, False, "room") for s in (0, 60)))

    assert start(0) == start(62) == []
    (gap,) = start(722)
    assert (gap.event, gap.reason) == ("gap", "outage")
    assert gap.text == "Nothing was seen for 10 minutes: narrated was not running."
    assert (gap.since, gap.until) == ("2024-03-01T00:02:02.000000Z", "2024-03-01T00:12:02.000000Z")
    assert verify([tmp_path]).ok


@pytest.mark.logs_errors
def test_a_while_on_a_full_disk_is_not_a_while_without_the_daemon(captioner, tmp_path):
    assert seen(captioner, tmp_path, frame(0, False, "room")) == []
    with disk_full_at(0):
        assert seen(captioner, tmp_path, frame(10, False, "room")) == []
    (gap,) = seen(captioner, tmp_path, frame(600, False, "room"))
    assert (gap.reason, gap.text) == ("outage", "Nothing was seen for 10 minutes: the disk took no records.")


@pytest.mark.parametrize("wrong_s", [0, 100 * 86400, -100 * 86400])
def test_a_start_with_a_wrong_clock_is_no_outage_but_for_the_seconds_that_passed(
    captioner, tmp_path, wrong_s
):
    def start(second: float, ahead_s: float) -> list[Record]:
        return seen(captioner, tmp_path, replace(frame(ahead_s + second, False, "room"), steady_s=second))

    assert start(1000, 0) == start(1010, wrong_s) == start(1020, 0) == []
    (gap,) = start(1100, wrong_s)
    assert gap.text == "Nothing was seen for a minute: narrated was not running."


def test_a_camera_that_is_away_while_its_settings_change_has_a_gap(captioner, tmp_path):
    camera = plan(url="rtsp://10.0.0.5/")
    with Journal(tmp_path, "room", fsync=False) as journal:
        telling = Narrator(captioner, [camera], {"room": journal}, live=True, memory=tmp_path / "kept")
        telling.process([Work(Seen(frame(0, False, "room")))])
        for second, found in ((15, 0), (3615, 1)):
            telling.add(replace(camera, url="rtsp://10.0.0.6/", lower=20.0 + second))
            gaps = telling.process([Work(Seen(frame(second, False, "room")))])
            assert len(gaps) == found
    assert (gaps[0].reason, gaps[0].text) == (
        "camera_down",
        "Nothing was seen for an hour: the camera sent no pictures.",
    )


def found_at(box: Box | None) -> Detections:
    """What a detector finds of a car, or of nothing."""
    here = slice(int(box is not None))
    car = np.eye(len(OBJECTS))[[OBJECTS.index("car")]]
    return Detections(np.array([box or (0, 0, 0, 0)])[here], np.full(1, 0.9)[here], car[here], car[here])


@pytest.mark.parametrize("interruption", ["gap", "reload", "kill"])
def test_what_stands_there_goes_on_since_nobody_knows_when(captioner, tmp_path, interruption):
    camera, box = plan(url="rtsp://10.0.0.5/"), (0.7, 0.6, 0.2, 0.2)
    frames = [frame(k / 5, k % 2 == 0, "room") for k in (*range(125), *range(3000, 3020))]
    names = set()
    for run in (frames,) if interruption == "gap" else (frames[:125], frames[125:]):
        if interruption == "kill" or not names:
            telling = narrator(captioner, tmp_path, camera, live=True, memory=tmp_path / "kept")
            scenery = telling._cameras["room"].state.scenery
            assert scenery.knows("tree", box) == bool(names)
            scenery.learn("tree", box)
        else:
            telling.add(replace(camera, lower=21.0))
        items = watch(run, PairThresholds(), tracked=True, live=True)
        items = [each for each in items if not isinstance(each, FramePair)]
        motions = [each.frame.time for each in items if isinstance(each, MotionFrame)]
        came = START + timedelta(seconds=2)
        telling.process(
            [Work(each) for each in items], [found_at(box if t >= came else None) for t in motions]
        )
        (track,) = telling._cameras["room"].state.tracker.tracks
        names.add(track.id)
        if interruption == "kill":
            telling._cameras["room"].journal.close()
    assert len(names) == 1
    assert track.last.time_s > START.timestamp() + 600
    assert track.since_s is None


def parking(telling: Narrator, every: int = 1, begin_s: float = 0) -> list[Record]:
    """What is told of a red car that comes in, stops and parks."""
    times = [k / 4 for k in range(0, 160, every)]
    ends = [min(0.15 * (t - 2), 0.51) for t in times]
    boxes = [(max(x - 0.2, 0.0), 0.5, min(x, 0.2), 0.2) if x > 0 else None for x in ends]
    frames = [frame(begin_s + t, False, "room") for t in times]
    for shown, end in zip(frames, ends, strict=True):
        shown.image[120:168, round(320 * max(end - 0.2, 0)) : round(320 * max(end, 0))] = (190, 30, 40)
    work = [Work(MotionFrame(each, follows_loss=every > 1)) for each in frames]
    told = telling.process(work, list(map(found_at, boxes)))
    return [*told, *telling.process([Work(Seen(frame(begin_s + 60, False, "room")))]), *telling.finish()]


def test_where_footage_ends_who_has_just_come_is_told(captioner, tmp_path):
    """A camera that runs goes on, and is told it later."""
    telling = narrator(captioner, tmp_path, plan())
    times = [k / 4 for k in range(13)]
    boxes = [(0.0, 0.5, 0.15 * (t - 2), 0.2) if t > 2 else None for t in times]
    work = [Work(MotionFrame(frame(t, False, "room"))) for t in times]
    assert [*telling.process(work, list(map(found_at, boxes))), *telling.finish()] == []
    (record,) = telling.finish(ended=True)
    assert record.sentences[0].action == "entered"


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_colours_are_said_where_they_are_wanted_also_after_a_reload(captioner, tmp_path, begun, wanted):
    plans = [replace(plan(), describe=DescribeOptions(colours=each)) for each in (begun, wanted)]
    telling = narrator(captioner, tmp_path, plans[0])
    telling.add(plans[1])
    assert any("red car" in each.text for each in parking(telling)) == wanted


@pytest.mark.parametrize("every", [1, 2])
def test_what_completes_a_record_names_it_and_is_no_event_of_its_own(captioner, tmp_path, every):
    """Also where a machine is too slow and looks at every other frame, which the record says."""
    camera = plan(per_minute=3)
    telling = narrator(captioner, tmp_path, replace(camera, source=replace(camera.source, sample_hz=4.0)))
    told = parking(telling, every)
    _, stopped, parked, summary = told
    assert [each.sentences[0].action for each in told] == ["entered", "stopped", "parked", None]
    assert ["red car" in each.text for each in told] == [False, True, True, False], "it came cut by the edge"
    assert [each.held for each in told] == [None, "summary", "summary", None]
    assert (parked.continues, summary.covers) == (stopped.id, (stopped.id, parked.id))
    assert summary.text == "Within a minute: a car came in on the left, a car stopped."
    assert {each.rate_hz for each in told} == {4.0 / every}
    assert verify([tmp_path]).ok


def test_a_captioner_brings_the_weights_by_which_its_cameras_are_tracked(captioner, tmp_path):
    """Of one that brings none they are the packaged ones, see above."""
    packaged, other = packaged_tracking(), copy(captioner)
    other.tracking = replace(packaged, entrance=packaged.entrance - 9)
    told = parking(narrator(other, tmp_path, plan()))
    assert [each.sentences[0].action for each in told] == ["stopped", "parked"]


def test_what_is_usual_is_learnt_over_restarts(captioner, tmp_path):
    kept, camera = tmp_path / "kept" / "room.json", plan(url="rtsp://10.0.0.5/", per_minute=20)

    def run() -> list[Record]:
        with Journal(tmp_path, "room", fsync=False) as journal:
            telling = Narrator(captioner, [camera], {"room": journal}, live=True, memory=kept.parent)
            return parking(telling, begin_s=60 * journal.end.seq)

    assert [each.held for each in run()] == [None] * 3
    learnt = json.loads(kept.read_text())["narrated-camera/1"]
    assert learnt["minutes"] == [{"entered vehicle": 1, "stopped vehicle": 1}]
    learnt |= {"minutes": [{"entered vehicle": 6}] * 30, "tracks": None, "present": []}
    kept.write_text(json.dumps({"narrated-camera/1": learnt}))
    live = [each for each in run() if each.event != "gap"]
    told = {each.sentences[0].action: each.held for each in live}
    assert told == {"entered": "summary", "stopped": None, "parked": None, None: None}
    assert live[-1].covers == (live[0].id,)


@pytest.mark.parametrize("was_set", [False, True])
def test_nobody_stays_for_the_time_by_which_the_clock_is_set(captioner, tmp_path, was_set):
    came = Sentence(
        "A car has come in.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8, action="entered", track="t"
    )
    start = (datetime(2024, 5, 1, tzinfo=UTC) - START).total_seconds()
    local = LocalTime(UTC)
    asker = Asker(("room",), frozenset(), local, ().__contains__)
    with Journal(tmp_path, "room", fsync=False) as journal:
        journal.append(narration(0, "room", sentences=(came,)))
        camera = plan(url="rtsp://10.0.0.5/")
        telling = Narrator(captioner, [camera], {"room": journal}, live=True, memory=tmp_path / "kept")
        rule = read_rule("r", "a car stays longer than 10 min", asker)
        telling.set_rules("room", (rule,), local)
        told = []
        for second, steady_s in ((10, 10.0), (3600, 30.0 if was_set else 3600.0)):
            seen = replace(frame(start + second, False, "room"), steady_s=steady_s)
            told += telling.process([Work(Seen(seen))])
    assert [each.event for each in told] == (["gap"] if was_set else ["rule"])
    with Search(tmp_path, local) as search:
        search.update()
        tried = try_rule(search, rule, Span(), START + timedelta(days=365))
    assert len(tried) == len([each for each in told if each.event == "rule"])
    if was_set:
        assert told[0].text == "Nothing was seen for an hour: the clock was set ahead."
        assert (told[0].since, told[0].reason) == ("2024-05-01T00:00:10.000000Z", "outage")


def test_what_is_not_looked_at_before_the_end_is_a_gap(captioner, tmp_path):
    telling = narrator(captioner, tmp_path, plan(url="rtsp://10.0.0.5/"), plan("yard"), live=True)
    away = Gap(frame(0, False, "room"), frame(600, False, "room"))
    frames = [MotionFrame(frame(t, True, "room")) for t in (601, 602)]
    live = [Work(each, since=0.0) for each in (away, *frames, pair(600, 604, COME), Seen(frames[1].frame))]
    footage = [Work(pair(0, 4, COME, "yard"))]
    told = telling.give_up([*live, *footage])
    assert [(each.camera, each.reason) for each in told] == [("room", "camera_down"), ("room", "overload")]
    assert (told[1].since, told[1].until) == ("2024-03-01T00:10:00.000000Z", "2024-03-01T00:10:04.000000Z")


@pytest.mark.logs_errors
@pytest.mark.parametrize("fault", ["detector", "tracker"])
def test_a_camera_that_cannot_be_narrated_has_gaps_and_blinds_no_other(
    captioner, tmp_path, monkeypatch, caplog, fault
):
    plans = [plan(name, url="rtsp://10.0.0.5/") for name in ("room", "yard")]
    telling = narrator(captioner, tmp_path, *plans, live=True)
    nothing = Detections(*(np.zeros(shape) for shape in ((0, 4), 0, (0, len(OBJECTS)), (0, 0))))
    seconds = [*range(10, 20), *range(22, 32)]
    found = [None if fault == "detector" and second < 20 else nothing for second in seconds]
    track = CameraState.track

    def fail(state: CameraState, motion: MotionFrame, detections: Detections) -> list[Event]:
        if (
            fault == "tracker"
            and motion.frame.camera == "room"
            and motion.frame.time < START + timedelta(seconds=20)
        ):
            raise IndexError("a fault")
        return track(state, motion, detections)

    monkeypatch.setattr(CameraState, "track", fail)
    told = telling.process([Work(Seen(frame(0, False, name))) for name in ("room", "yard")])
    frames = [Work(MotionFrame(frame(second, False, "room"))) for second in seconds]
    told += telling.process(frames[:5], found[:5])
    parts = {"cameras": Cameras((), WorkQueue([])), "journals": {}, "publishing": Publishing({}, None)}
    daemon = SimpleNamespace(narrating=SimpleNamespace(narrator=telling), **parts)
    health = Health(daemon, Heartbeats())  # type: ignore[arg-type]
    health.phase = Phase.WATCHING
    assert health.unready() == ["what room shows cannot be analysed: see the log"]
    told += telling.process([*frames[5:], Work(pair(40, 44, COME, "yard"))], found[5:])
    assert not health.unready()
    assert [(each.camera, each.text) for each in told] == [
        ("room", "Nothing was seen for 12 s: narrated could not analyse it."),
        ("yard", "A box has appeared."),
    ]
    assert told[0].reason == "outage"
    assert caplog.text.count("report this") == (fault == "tracker")
    telling.process([Work(MotionFrame(frame(second, False, "room"))) for second in (50, 59)], [None, None])
    assert [each.text for each in telling.finish()] == [
        "Nothing was seen for 9 s: narrated could not analyse it."
    ]
    bad = replace(frame(70, False, "room"), picture=LazyPicture(lambda: 1 / 0))  # type: ignore[arg-type,return-value]
    assert telling.detect([Work(MotionFrame(bad))]) == [None]


def test_a_failure_that_lasts_is_one_gap_over_a_kill_as_well(captioner, tmp_path):
    camera, kept = plan(url="rtsp://10.0.0.5/"), tmp_path / "kept"

    def fail(telling: Narrator, first: int, last: int) -> list[str]:
        seconds = range(first, last)
        work = [
            MotionFrame(frame(s, False, "room")) if s % 20 else Seen(frame(s, False, "room")) for s in seconds
        ]
        found = [None for each in work if isinstance(each, MotionFrame)]
        return [each.text for each in telling.process([*map(Work, work)], found)]

    telling = narrator(captioner, tmp_path / "a", camera, live=True, memory=kept)
    assert fail(telling, 0, 75) == []
    (gap,) = telling.process([Work(Seen(frame(80, False, "room")))])
    assert gap.text == "Nothing was seen for a minute: narrated could not analyse it."
    assert (gap.since, gap.until) == ("2024-03-01T00:00:01.000000Z", "2024-03-01T00:01:14.000000Z")
    assert fail(telling, 101, 150) == []  # and it is killed
    again = narrator(captioner, tmp_path / "b", camera, live=True, memory=kept)
    (outage,) = again.process([Work(Seen(frame(160, False, "room")))])
    assert (outage.reason, outage.since) == ("outage", "2024-03-01T00:01:20.000000Z")


def test_frames_that_are_lost_before_the_first_one_looked_at_are_a_gap(captioner, tmp_path):
    telling = narrator(captioner, tmp_path, plan(url="rtsp://10.0.0.5/"), live=True)
    later = replace(MotionFrame(frame(60, True, "room")), follows_loss=True)
    nothing = Detections(*(np.zeros(shape) for shape in ((0, 4), 0, (0, len(OBJECTS)), (0, 0))))
    telling.captioning.detect = lambda images: [nothing] * len(images)  # type: ignore[method-assign]
    (gap,) = telling.process([Work(Seen(frame(0, False, "room"))), Work(later)])
    assert (gap.event, gap.reason) == ("gap", "overload")
    assert gap.text == "Nothing was seen for a minute: this machine was too slow."


def test_what_masks_hide_is_recorded_and_sent_only_where_it_changes(captioner, tmp_path):
    left = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))

    def start(second: float, *masks: Polygon) -> list[tuple[str, str | None, str | None]]:
        frames = [frame(second + s, False, "room") for s in (0, 20)]
        found = seen(captioner, tmp_path, *frames, masks=masks)
        assert all(each.event == "gap" for each in found)
        return [(each.text, each.until, each.held) for each in found if each.reason == "mask"]

    hidden = "Nothing is seen of 51 % of the picture: a mask hides it."
    assert start(0) == []
    assert start(40, left) == [(hidden, None, None)]
    assert start(80, left) == []
    assert start(86400, left) == [(hidden, None, "merged")]
    ((text, until, held),) = start(86440)
    assert (text, until, held) == ("No mask hides anything any more.", "2024-03-02T00:00:40.000000Z", None)
    assert start(86480) == []
