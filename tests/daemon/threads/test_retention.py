"""What retention deletes, what it never does, and which clock it goes by."""

import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrations import narration
from unpublished import recorded, unpublished

from daemon.config.settings import RetentionSettings
from daemon.threads import retention as module
from daemon.threads.retention import SEGMENTS_PER_RUN, Retention, SteadyClock
from pipeline import evidence as store_module
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal, JournalError, SegmentLimits
from pipeline.journal.custody import Hold, add_hold, release_hold
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.journal.verification import VerifyOptions, verify
from pipeline.record import Evidence

HOUR, DAY = 3600, 86400


class Clocks:
    """The wall clock, which may jump, and the boot clock, which does not."""

    def __init__(self, monkeypatch):
        self.wall, self.boot = time.time(), 1000.0
        monkeypatch.setattr(module.time, "time", lambda: self.wall)
        monkeypatch.setattr(module, "boot_time_s", lambda: self.boot)

    def pass_by(self, seconds):
        self.wall, self.boot = self.wall + seconds, self.boot + seconds


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "RECENT_S", 0.0)  # else a picture stays for an hour
    return EvidenceStore(tmp_path / "evidence", fsync=False)


@pytest.fixture
def fill(tmp_path, store):
    """Makes cameras with a segment a day, each written a day after the one before; all of it published."""
    opened = {}

    def make(cameras=("yard", "lot"), days=4):
        for camera in cameras:
            limits = SegmentLimits(daily=True)
            journal = Journal(tmp_path / "journal", camera, fsync=False, limits=limits, hold=9)
            for day in range(days):
                raw = [bytes([day]) * 1000 + bytes([side]) + camera.encode() for side in range(2)]
                before, after = (store.put(each, "webp") for each in raw)
                for hour in range(3):
                    told = narration(day * DAY + hour * HOUR, camera)
                    journal.append(told, evidence=Evidence(before=before, after=after))
            for age, segment in enumerate(reversed(journal.full), 1):
                os.utime(segment.path, (time.time() - age * DAY,) * 2)
            opened[camera] = journal
            publish(journal)
        return opened

    yield make
    for journal in opened.values():
        journal.close()


@pytest.fixture
def cameras(clocks, fill):
    return fill()


def publish(journal):
    *_, (_, position) = unpublished(journal)
    journal.acknowledge(position)


def days(journal):
    return sorted({record.after.moment.day for record in recorded(journal) if record.event == "change"})


def deletions(journal):
    return [record for record in recorded(journal) if record.event == "deletion"]


def retention(cameras, store, key=None, **given):
    limits = {"age": None, "size": None, "free": None} | given
    return Retention(RetentionSettings.model_construct(**limits), cameras, store, key)


def pictures(store):
    return len(list(store.folder.glob("*/*")))


def run(looking, times=2):
    """By default once to announce, and once to delete."""
    for _ in range(times):
        looking.run()


def kept(cameras):
    return [days(journal) for journal in cameras.values()]


EVERYTHING = [[1, 2, 3, 4]] * 2


def test_what_is_too_old_goes_with_its_pictures_and_the_chain_says_so(cameras, store, tmp_path, caplog):
    before = pictures(store)
    key = SigningKey(new_key())
    looking = retention(cameras, store, key, age=2.5 * DAY)
    first, last = (recorded(cameras["yard"])[place] for place in (0, 2))
    looking.run()
    assert kept(cameras) == EVERYTHING
    assert caplog.text.count("will be deleted in 60 s (retention.age)") == 2
    looking.run()
    assert kept(cameras) == [[2, 3, 4]] * 2
    run(looking)
    assert dict(looking.segments) == {("yard", "age"): 1, ("lot", "age"): 1}
    assert pictures(store) == before - 4
    (record,) = deletions(cameras["yard"])
    told = record.deletion
    assert (told.reason, told.records, told.first_seq, told.last_seq) == ("age", 3, 1, 3)
    assert told.last_hash == last.hash
    assert (record.before, record.after) == (first.before, last.after)
    assert record.text.startswith("3 records from 2024-05-01T00:00:00")
    for journal in cameras.values():
        assert journal.append(replace(narration(9 * DAY, journal.camera))).seq == 14
        key.sign(journal.camera, journal.end).append(journal.folder)
    verification = verify([tmp_path / "journal"], VerifyOptions(keys=[key.public]))
    assert verification.ok, verification.problems
    assert (tmp_path / "clock").stat().st_mode & 0o007 == 0


def test_pictures_that_no_record_names_go_when_they_are_old(cameras, store, clocks):
    """Of narrations that were lost with the process that held them, say, or half written."""
    before, old = pictures(store), clocks.wall - 100 * DAY
    for path in store.folder.glob("*/*"):
        os.utime(path, (old, old))
    for content, age_s in ((b"lost", 100 * DAY), (b"just lost", 0.0)):
        path = store.find(store.put(content, "jpg"))
        half = path.with_name(path.name + ".tmp")
        half.write_bytes(b"ha")
        for each in (path, half):
            os.utime(each, (clocks.wall - age_s,) * 2)
    retention(cameras, store, age=90 * DAY).run()
    assert pictures(store) == before + 2


@pytest.mark.parametrize("at_start", [False, True])
def test_a_clock_that_is_wrong_for_a_minute_deletes_nothing(cameras, store, clocks, caplog, at_start):
    looking = retention(cameras, store, age=90 * DAY)
    looking.run()
    if at_start:
        looking = retention(cameras, store, age=90 * DAY)
    clocks.wall += 100 * DAY
    for _ in range(5):
        looking.run()
        clocks.pass_by(60)
    clocks.wall -= 100 * DAY
    run(looking)
    assert not looking.segments
    assert kept(cameras) == EVERYTHING
    assert caplog.text.count(" days ahead; nothing is deleted for age") == 1


def test_the_record_of_a_quiet_camera_ages_out(cameras, store, clocks):
    looking = retention(cameras, store, age=30 * DAY)
    for _ in range(32):
        run(looking)
        clocks.pass_by(DAY)
    assert kept(cameras) == [[4]] * 2


def test_a_segment_that_was_written_while_the_clock_was_ahead_keeps_no_others(cameras, store):
    os.utime(cameras["yard"].full[1].path, (time.time() + 900 * DAY,) * 2)
    run(retention(cameras, store, age=0.5 * DAY), 4)
    assert kept(cameras) == [[4]] * 2


@pytest.mark.parametrize("running_h", [1, 30])
def test_after_months_off_the_clock_is_believed_when_it_has_said_so_for_a_day(
    cameras, store, clocks, running_h
):
    retention(cameras, store, age=30 * DAY).run()
    clocks.wall += 60 * DAY
    clocks.boot = 5.0
    for _ in range(2):  # a restart in between changes nothing
        looking = retention(cameras, store, age=30 * DAY)
        for _ in range(running_h * 3):
            looking.run()
            clocks.pass_by(600)
    run(looking)
    assert kept(cameras) == ([[4]] * 2 if running_h > 24 else EVERYTHING)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1e8, 1e8)), max_size=30))
def test_no_clock_makes_records_older_than_they_can_be(tmp_path_factory, steps):
    """Unless the wall clock is believed after a day, no more time passes than passes."""
    with pytest.MonkeyPatch.context() as patch:
        clocks = Clocks(patch)
        started, boot = clocks.wall, clocks.boot
        clock = SteadyClock(tmp_path_factory.mktemp("state") / "clock", started)
        for passed_s, jump_s in steps:
            clocks.pass_by(passed_s)
            clocks.wall += jump_s
            now = clock.now()
            assert now <= clocks.wall
            if clocks.boot - boot < DAY:
                assert now - started <= clocks.boot - boot + module._JUMP_S * len(steps)
            clocks.wall -= jump_s


def test_one_run_deletes_only_so_much(clocks, fill, store):
    cameras = fill(("yard",), days=2 * SEGMENTS_PER_RUN + 3)
    looking = retention(cameras, store, age=0)
    for count in (0, SEGMENTS_PER_RUN, 2 * SEGMENTS_PER_RUN, 2 * SEGMENTS_PER_RUN + 2):
        looking.run()
        assert looking.segments.total() == count
    assert [record.deletion.records for record in deletions(cameras["yard"])] == [24, 24, 6]


def test_what_is_not_published_never_goes(cameras, store):
    cameras["yard"].acknowledge(cameras["yard"].end_at(0))
    looking = retention(cameras, store, age=0, size=1, free=10**18)
    run(looking)
    assert days(cameras["yard"]) == [1, 2, 3, 4]
    assert days(cameras["lot"]) == [4]
    publish(cameras["yard"])
    run(looking)
    assert days(cameras["yard"]) == [4]


def test_beyond_a_size_the_oldest_of_all_cameras_go_first_and_no_more_than_is_enough(cameras, store):
    whole = sum(journal.size for journal in cameras.values()) + store.size()
    looking = retention(cameras, store, size=int(whole * 0.85))
    run(looking, 5)
    assert sorted(map(len, kept(cameras))) == [3, 3]
    assert dict(looking.segments) == {("yard", "size"): 1, ("lot", "size"): 1}
    full = retention(cameras, store, free=10**18)  # where the disk fills up all but the current may go
    run(full)
    assert kept(cameras) == [[4]] * 2
    assert full.segments["lot", "free"] == 2
    assert pictures(store) == 4


def test_pictures_that_somebody_removed_count_no_more(cameras, store):
    looking = retention(cameras, store, size=sum(journal.size for journal in cameras.values()) + store.size())
    for journal in cameras.values():
        journal.append(narration(9 * DAY, journal.camera))
    shutil.rmtree(store.folder)
    run(looking, 3)
    assert not looking.segments


def test_a_camera_that_is_removed_during_a_run_ends_nothing(cameras, store):
    class Leaving(dict):
        def items(self):
            there = [*super().items()]
            self.pop("yard", None)
            return there

    run(retention(Leaving(cameras), store, age=0.5 * DAY))
    assert kept(cameras) == [[1, 2, 3, 4], [4]]


def test_a_picture_stays_as_long_as_any_record_names_it(clocks, fill, store):
    cameras = fill(("yard",))
    shared = store.put(b"as ever", "webp")
    for name in ("gate", "held"):
        folder = cameras["yard"].folder
        cameras[name] = Journal(folder, name, fsync=False, limits=SegmentLimits(daily=True), hold=9)
    for day in range(3):
        cameras["gate"].append(narration(day * DAY, "gate"), evidence=Evidence(before=shared))
    publish(cameras["gate"])
    looking = retention(cameras, store, free=10**18)
    run(looking)
    assert store.find(shared)
    looking._settings = RetentionSettings.model_construct(age=None, size=None, free=None)
    line = cameras["gate"].append(narration(9 * DAY, "gate")).line()
    publish(cameras["gate"])
    members = {"evidence": Evidence(before=shared)}
    cameras["held"]._held.append((None, members))  # as on a disk that takes nothing
    looking._settings = RetentionSettings.model_construct(age=None, size=None, free=10**18)
    run(looking)
    gate = cameras["gate"]
    assert recorded(gate)[-2].line() == line or days(gate) == [10]
    assert store.find(shared)
    cameras["held"]._held.clear()


def test_a_run_that_was_killed_is_finished_by_the_next_process(cameras, store, monkeypatch):
    looking = retention(cameras, store, age=2.5 * DAY)
    monkeypatch.setattr(Retention, "_remove_files", lambda _: None)
    run(looking)
    monkeypatch.undo()
    monkeypatch.setattr(store_module, "RECENT_S", 0.0)
    left = cameras["yard"].deleted
    assert [segment.path.exists() for segment in left] == [True]
    assert verify([cameras["yard"].folder]).ok
    again = retention(cameras, store)
    again.run()
    assert not left[0].path.exists()
    assert pictures(store) == 12
    assert verify([cameras["yard"].folder]).ok


def hold(journal, day, **changed):
    """Holds the first record of a day of the yard's."""
    at = [record for record in recorded(journal) if record.event == "change"][3 * day].after.moment
    span = {"since": at - timedelta(minutes=1), "until": at + timedelta(minutes=1)}
    told = {"name": "claim 7", "reason": "asked for by the insurer", "made": at, "cameras": ("yard",)}
    add_hold(journal.folder, Hold(**{**span, **told, **changed}))


def test_what_is_held_stays_with_all_that_follows_it_until_it_is_released(cameras, store, tmp_path):
    hold(cameras["yard"], 1)
    hold(cameras["yard"], 0, name="ended", ends=datetime(2020, 1, 1, tzinfo=UTC))
    hold(cameras["yard"], 0, name="of another", cameras=("gate",))
    looking = retention(cameras, store, age=0.5 * DAY)
    run(looking, 6)
    assert kept(cameras) == [[2, 3, 4], [4]]
    assert verify([tmp_path / "journal"]).ok
    release_hold(tmp_path / "journal", "claim 7")
    run(looking, 6)
    assert kept(cameras) == [[4]] * 2


def test_what_is_held_stays_although_the_clock_was_ahead_before_it(cameras, store):
    yard = cameras["yard"]
    for day in (20, 19.5, 30):
        held = yard.append(narration(day * DAY))
    publish(yard)
    assert len(yard.full) == 5
    hold(
        yard,
        0,
        since=held.after.moment - timedelta(days=10.75),
        until=held.after.moment - timedelta(days=10.25),
    )
    run(retention(cameras, store, free=10**18), 6)
    assert days(yard) == [20, 21, 31]


@contextmanager
def full(journal):
    """While its journal is on a disk that is full."""
    file = journal._file
    kept, disk = os.dup(file), os.open("/dev/full", os.O_RDWR)
    os.dup2(disk, file)
    try:
        yield
    finally:
        os.dup2(kept, file)
        os.close(kept)
        os.close(disk)


@pytest.mark.logs_errors
@pytest.mark.parametrize("others", [0, 1])
def test_nothing_is_deleted_while_no_record_of_it_can_be_written(cameras, store, others):
    looking, journal = retention(cameras, store, age=0.5 * DAY), cameras["yard"]
    looking.run()
    with full(journal):
        for hour in range(others):
            journal.append(narration(3 * DAY + hour * HOUR))
        for _ in range(3):
            with pytest.raises(JournalError, match=r"yard\.jsonl"):
                looking.run()
        assert journal.held == others
    assert [len(journal.full), journal.deleted] == [3, []]
    run(looking)
    assert [record.deletion.records for record in deletions(journal)] == [9]


@pytest.mark.logs_errors
def test_a_segment_that_cannot_be_read_stays_and_keeps_no_other_camera_s(cameras, store, caplog):
    first = cameras["yard"].full[0].path
    first.write_bytes(first.read_bytes()[:-9])
    os.utime(first, (time.time() - 3 * DAY,) * 2)
    run(retention(cameras, store, age=0.5 * DAY), 4)
    assert [len(journal.full) for journal in cameras.values()] == [3, 0]
    assert caplog.text.count("camera yard: retention deletes nothing: ") == 1


def test_nothing_is_deleted_where_the_holds_cannot_be_read(cameras, store, tmp_path):
    (tmp_path / "holds.json").write_text("{")
    with pytest.raises(JournalError, match="nothing is deleted until it can"):
        run(retention(cameras, store, age=0.5 * DAY), 3)
    assert kept(cameras) == EVERYTHING
