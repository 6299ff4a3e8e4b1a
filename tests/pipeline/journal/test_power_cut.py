"""Whatever a power cut leaves, at any step: what was promised is there, and no tampering is reported."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faulty_disks import ForgetfulDisk, Killed, Tree
from narrations import narration
from unpublished import recorded, unpublished

from daemon.collect.collector import JournalCopy
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal, SegmentLimits
from pipeline.journal.signatures import SigningKey
from pipeline.journal.verification import VerifyOptions, verify
from pipeline.record import Evidence

ONE_EACH = SegmentLimits(bytes=1)
KEY = SigningKey("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")


@dataclass(slots=True)
class Promises:
    """What was promised after how many steps: the number of the last record on disk, and of the last signed.

    Until `kept` steps nothing is deleted.
    """

    disk: ForgetfulDisk
    records: dict[int, int] = field(default_factory=dict)
    signed: dict[int, int] = field(default_factory=dict)
    kept: int = 0

    def hold(self, tree: Tree, count: int, place: Path) -> None:
        """Start again on what is left after so many steps."""
        lay(tree, place)
        with Journal(place / "journal", "yard", limits=ONE_EACH) as journal:
            seqs = [record.seq for record in recorded(journal)]
            first = 1 if count <= self.kept else seqs[0]
            assert seqs == list(range(first, journal.end.seq + 1)), self._when(count)
            assert journal.end.seq >= _latest(self.records, count), self._when(count)
            if signed := _latest(self.signed, count):
                result = verify([place], VerifyOptions(keys=[KEY.public]))
                assert max((s.seq for s in result.attested.values()), default=0) >= signed, self._when(count)
            journal.append(narration(1000))
            KEY.sign("yard", journal.end).append(journal.folder)
        result = verify([place], VerifyOptions(keys=[KEY.public]))
        assert not result.problems, self._when(count)

    def _when(self, count: int) -> str:
        return f"after {', '.join(str(step) for step in self.disk.steps[max(0, count - 6) : count])}"


def _latest(promised: dict[int, int], count: int) -> int:
    return max((value for step, value in promised.items() if step <= count), default=0)


def lay(tree: Tree, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in sorted(tree.items()):
        if content is None:
            (place / name).mkdir()
        else:
            (place / name).write_bytes(content)


@pytest.fixture
def disk(tmp_path, monkeypatch) -> ForgetfulDisk:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # noted all the same; the real disk need not wait
    (tmp_path / "disk").mkdir()
    return ForgetfulDisk(tmp_path / "disk")


def a_life(disk: ForgetfulDisk) -> Promises:
    """Three records with a picture each, in segments of one; published, signed, and the oldest deleted."""
    promises = Promises(disk)
    pictures = EvidenceStore(disk.root / "evidence")
    with disk.noting(), Journal(disk.root / "journal", "yard", limits=ONE_EACH) as journal:
        for number in range(1, 4):
            reference = pictures.put(b"picture %d" % number, "webp")
            journal.append(narration(number), evidence=Evidence(before=reference))
            promises.records[len(disk.steps)] = number
            *_, (_, position) = unpublished(journal)
            journal.acknowledge(position)
            if number != 2:
                KEY.sign("yard", journal.end).append(journal.folder)
                promises.signed[len(disk.steps)] = number
        promises.kept = len(disk.steps)
        journal.delete(journal.full[0].last_record(), KEY)
        for segment in journal.deleted:
            journal.unlink(segment)
    return promises


def another_life(disk: ForgetfulDisk) -> Promises:
    """The next process finishes the deletion, and adds a picture, a record and a signature."""
    promises = Promises(disk)
    with disk.noting(), Journal(disk.root / "journal", "yard", limits=ONE_EACH) as journal:
        for segment in journal.deleted:
            journal.unlink(segment)
        assert {*journal.folder.glob("yard.0*.jsonl")} == {segment.path for segment in journal.full}
        reference = EvidenceStore(disk.root / "evidence").put(b"picture 1", "webp")
        journal.append(narration(100), evidence=Evidence(before=reference))
        promises.records[len(disk.steps)] = journal.end.seq
        KEY.sign("yard", journal.end).append(journal.folder)
        promises.signed[len(disk.steps)] = journal.end.seq
    return promises


def cuts(disk: ForgetfulDisk, first: int, last: int) -> Iterator[tuple[int, Tree]]:
    """What may be left between two steps, each once: after the last step that may leave it."""
    latest = {}
    for count in range(first, last + 1):
        for tree in disk.leftovers(count):
            latest[frozenset(tree.items())] = count, tree
    return iter(latest.values())


def test_a_power_cut_at_any_step_takes_nothing_that_was_promised(disk, tmp_path):
    promises = a_life(disk)
    for first, last in ((0, promises.kept), (promises.kept + 1, len(disk.steps))):
        for count, tree in cuts(disk, first, last):
            promises.hold(tree, count, tmp_path / "left")


def test_a_process_killed_at_any_step_and_a_power_cut_after_the_next_one(tmp_path, disk):
    """What the first had no time to sync, the second must."""
    a_life(disk)
    for killed_after in range(1, len(disk.steps) + 1):
        root = tmp_path / f"killed {killed_after}"
        root.mkdir()
        again = ForgetfulDisk(root)
        again.killed_after = killed_after
        with pytest.raises(Killed):
            a_life(again)
        again.killed_after = None
        promises = another_life(again)
        for count in (min(promises.records), len(again.steps)):
            for tree in again.leftovers(count):
                promises.hold(tree, count, tmp_path / "left")


def test_what_a_crash_tore_off_is_never_lost(disk):
    a_life(disk)
    with disk.noting(), (disk.root / "journal" / "yard.jsonl").open("ab") as file:
        file.write(b"half a li")
        file.flush()
        os.fsync(file.fileno())
    since = len(disk.steps)
    another_life(disk)
    assert len(disk.steps) > since
    for _, tree in cuts(disk, since, len(disk.steps)):
        torn = [tree.get(f"journal/yard.{suffix}") or b"" for suffix in ("jsonl", "torn")]
        assert b"half a li" in b"".join(torn)


def test_a_copy_goes_on_after_a_power_cut_at_any_step(disk, tmp_path):
    with Journal(tmp_path, "yard", fsync=False, limits=ONE_EACH) as journal:
        records = [journal.append(narration(second)) for second in range(4)]
    lines = [record.line() for record in records if record]
    with disk.noting():
        copy = JournalCopy(disk.root / "journal", "yard", ONE_EACH)
        for number, line in enumerate(lines, 1):
            copy.append(line)
            if number != 3:
                copy.sync()
        copy.release()
    for _, tree in cuts(disk, 0, len(disk.steps)):
        lay(tree, tmp_path / "left")
        again = JournalCopy(tmp_path / "left" / "journal", "yard", ONE_EACH)
        for line in lines[again.end.seq :]:
            again.append(line)
        again.release()
        assert not verify([tmp_path / "left"]).problems
        assert again.end.seq == 4
