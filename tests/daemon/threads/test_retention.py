"""What retention deletes, and what it never does."""

import os
import time
from dataclasses import replace

import pytest
from narrations import narration
from unpublished import unpublished

from daemon.config.settings import RetentionSettings
from daemon.config.values import format_size, parse_size
from daemon.threads import retention as module
from daemon.threads.retention import Retention
from pipeline.evidence import EvidenceStore, Named, named_in
from pipeline.journal import Journal, SegmentLimits, verify
from pipeline.record import Evidence

DAY = 86400


@pytest.fixture
def store(tmp_path):
    return EvidenceStore(tmp_path / "evidence", fsync=False)


@pytest.fixture
def cameras(tmp_path, store):
    """Two cameras, four days each, each segment written a day after the one before."""
    opened = {}
    for camera in ("yard", "lot"):
        journal = Journal(tmp_path / "journal", camera, fsync=False, limits=SegmentLimits(daily=True), hold=9)
        for day in range(4):
            for hour in range(3):
                pictures = [
                    store.put(bytes([day]) * 1000 + bytes([side]) + camera.encode(), "webp")
                    for side in range(2)
                ]
                journal.append(
                    narration(day * DAY + hour * 3600, camera),
                    evidence=Evidence(before=pictures[0], after=pictures[1]),
                )
        for age, segment in enumerate(reversed(journal.closed()), 1):
            written = time.time() - age * DAY
            os.utime(segment.path, (written, written))
        opened[camera] = journal
    store.sweep(Everything(), unsettled_s=0)  # the pictures count as old
    yield opened
    for journal in opened.values():
        journal.close()


class Everything:
    def __contains__(self, _):
        return True


class Impatient(EvidenceStore):
    """Sweeps what was put just now; else a picture stays for an hour."""

    def sweep(self, kept, *, among=None, unsettled_s=0.0):
        return super().sweep(kept, among=among, unsettled_s=unsettled_s)


def publish(journal):
    *_, (_, position) = unpublished(journal)
    journal.acknowledge(position)


def days(journal):
    return sorted({record.after.moment.day for record in journal})


def limits(age=None, size=None, free=None):
    return RetentionSettings.model_construct(age=age, size=size, free=free)


def retention(cameras, store, **given):
    return Retention(limits(**given), cameras, Impatient(store.folder, fsync=False))


def test_what_is_too_old_goes_with_its_pictures(cameras, store, tmp_path):
    for journal in cameras.values():
        publish(journal)
    before = store.size()
    looking = retention(cameras, store, age=2.5 * DAY)
    looking.look()
    looking.look()
    assert [days(journal) for journal in cameras.values()] == [[2, 3, 4], [2, 3, 4]]
    assert dict(looking.segments) == {("yard", "age"): 1, ("lot", "age"): 1}
    assert looking.bytes["yard", "age"] > 1000
    assert store.size().files == before.files - 4 == before.files - looking.pictures
    verification = verify([tmp_path / "journal"])
    assert verification.ok, verification.problems
    for journal in cameras.values():
        assert journal.append(replace(narration(9 * DAY, journal.camera))).seq == 13


def test_what_is_not_published_never_goes(cameras, store, caplog):
    publish(cameras["lot"])
    looking = retention(cameras, store, age=0, size=1, free=10**18)
    looking.look()
    assert days(cameras["yard"]) == [1, 2, 3, 4]
    assert days(cameras["lot"]) == [4]
    assert looking.unpublished >= {"yard"}
    assert "not published" in caplog.text
    publish(cameras["yard"])
    looking.look()
    assert days(cameras["yard"]) == [4]


def test_beyond_a_size_the_oldest_of_all_cameras_go_first(cameras, store):
    for journal in cameras.values():
        publish(journal)
    whole = sum(journal.size for journal in cameras.values()) + store.size().bytes
    looking = retention(cameras, store, size=int(whole * 0.8))
    looking.look()
    assert sorted(map(len, map(days, cameras.values()))) == [3, 3]
    assert looking.segments.total() == 2
    assert {reason for _, reason in looking.segments} == {"size"}
    looking.look()
    assert looking.segments.total() == 2


def test_no_more_goes_than_is_enough(cameras, store):
    for journal in cameras.values():
        publish(journal)
    whole = sum(journal.size for journal in cameras.values()) + store.size().bytes
    looking = retention(cameras, store)
    oldest = cameras[looking._oldest(set())].closed()[0]
    just_enough = oldest.size + sum(map(looking._size_of, set(named_in(oldest.path))))
    looking._settings = limits(size=whole - just_enough)
    looking.look()
    assert looking.segments.total() == 1


def test_where_the_disk_fills_up_all_but_the_current_segments_may_go(cameras, store):
    for journal in cameras.values():
        publish(journal)
    looking = retention(cameras, store, free=10**18)
    looking.look()
    assert [days(journal) for journal in cameras.values()] == [[4], [4]]
    assert looking.segments["lot", "free"] == 3
    assert store.size().files == 4


def test_a_picture_stays_as_long_as_any_record_names_it(cameras, store, tmp_path):
    """What was seen on the first day of the yard is also on the last of the lot, and on its second."""
    before = store.size()
    shared = store.put(b"as ever", "webp")
    alone = store.put(b"only then", "webp")
    journal = Journal(tmp_path / "journal", "gate", fsync=False, limits=SegmentLimits(daily=True))
    cameras["gate"] = journal
    for day, pictures in enumerate([(shared, alone), (shared, shared), (None, None)]):
        journal.append(narration(day * DAY, "gate"), evidence=Evidence(before=pictures[0], after=pictures[1]))
    for age, segment in enumerate(reversed(journal.closed()), 1):
        os.utime(segment.path, (time.time() - 10 * age * DAY,) * 2)
    publish(journal)
    looking = retention({"gate": journal}, store, age=15 * DAY)
    for _ in range(2):
        looking.look()
        assert days(journal) == [2, 3]
        assert store.find(alone) is None
        assert store.find(shared)
    assert looking.pictures == 1
    assert looking._evidence.known_size() == looking._evidence.size()
    looking._settings = limits(age=5 * DAY)
    looking.look()  # this time only the pictures of the deleted segment are looked at
    assert days(journal) == [3]
    assert store.find(shared) is None
    assert store.size() == before == looking._evidence.known_size()


@pytest.mark.parametrize("options", [{"free": 10**18}, {"age": 0}], ids=str)
@pytest.mark.parametrize(("many", "times"), [(1000, 1), (3, 3)])  # pictures that go at once; two a segment
def test_many_segments_cost_few_readings_of_the_journals(cameras, store, monkeypatch, options, many, times):
    readings = []
    monkeypatch.setattr(module, "_MANY", many)
    monkeypatch.setattr(module, "Named", lambda paths: readings.append(len(paths)) or Named(paths))
    for journal in cameras.values():
        publish(journal)
    looking = retention(cameras, store, **options)
    looking.look()
    assert looking.segments.total() == 6
    assert looking.pictures == 12
    assert len(readings) == times
    looking.look()
    assert len(readings) == times


@pytest.mark.logs_errors
def test_pictures_wait_while_lines_are_held(cameras, store, tmp_path):
    """A line that is only in memory may name them; and segments do not go in their stead."""
    for journal in cameras.values():
        publish(journal)
    cameras["lot"]._held.append(b"{}")  # as on a disk that takes nothing
    size = sum(journal.size for journal in cameras.values()) + store.size().bytes
    looking = retention(cameras, store)
    oldest = cameras[looking._oldest(set())].closed()[0]
    looking._settings = limits(size=size - oldest.size - 1)  # its pictures would be enough
    looking.look()
    assert looking.segments.total() == 1
    assert looking.pictures == 0
    cameras["lot"]._held.clear()
    looking.look()
    assert looking.pictures > 0


def test_without_limits_nothing_goes(cameras, store):
    looking = retention(cameras, store)
    looking.look()
    assert looking.segments.total() == looking.pictures == 0
    assert len(days(cameras["yard"])) == 4


def test_it_looks_at_once_in_its_own_thread(cameras, store, monkeypatch):
    monkeypatch.setattr(module, "_EVERY_S", 3600.0)
    for journal in cameras.values():
        publish(journal)
    looking = retention(cameras, store, age=0.5 * DAY)
    looking.start()
    until = time.monotonic() + 120
    while not looking.runs:
        assert time.monotonic() < until
        time.sleep(0.01)
    looking.stop()
    assert days(cameras["yard"]) == [4]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500MB", 500_000_000),
        ("1.5GB", 1_500_000_000),
        ("7B", 7),
        ("8.2GB", 8_200_000_000),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes_carry_their_unit(text, size):
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("text", ["500", "GB", "-1GB", "1 GB", "1gb", ""])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="such as 500MB"):
        parse_size(text)
