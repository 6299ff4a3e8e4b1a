"""Verification: segments, pictures, signatures, several processes; and comparing two journals."""

import hashlib
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import rfc8785
from chained import chain, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrations import narration

from pipeline.evidence import EvidenceStore
from pipeline.journal import verification
from pipeline.journal.segments import line_end
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.journal.verification import VerifyOptions, verify
from pipeline.record import ChainEnd, Evidence, Record

KEY = SigningKey("1" * 64)


def segmented(folder: Path, records: Sequence[Record], *firsts: int) -> None:
    """The records in files that begin with those numbers; the last one is the current."""
    for begin, stop in zip(firsts, [*firsts[1:], None], strict=True):
        name = f"yard.{begin:012d}.jsonl" if stop else "yard.jsonl"
        write(folder / name, [r for r in records if begin <= r.seq < (stop or 10**9)])


def started(folder: Path, record: Record, key: SigningKey | None = None, camera: str = "yard") -> None:
    unsigned = rfc8785.dumps({"hash": record.hash, "seq": record.seq})
    signed = key.sign_start(camera, ChainEnd.of(record)) if key else unsigned
    (folder / "yard.start").write_bytes(signed + b"\n")


def reasons(folder: Path, **options: object) -> list[str]:
    return [str(problem) for problem in verify([folder], VerifyOptions(**options)).problems]


class TestLines:
    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_any_changed_inserted_or_deleted_byte_is_found(self, data):
        whole = b"".join(record.line() + b"\n" for record in chain(map(narration, range(3))))
        at = data.draw(st.integers(0, len(whole) - 1))
        kind = data.draw(st.sampled_from(["flip", "insert", "delete", "cut"]))
        byte = data.draw(st.integers(0, 255))
        changed = {
            "flip": whole[:at] + bytes([whole[at] ^ (byte or 1)]) + whole[at + 1 :],
            "insert": whole[:at] + bytes([byte]) + whole[at:],
            "delete": whole[:at] + whole[at + 1 :],
            "cut": whole[:at],
        }[kind]
        boundary = whole.startswith(changed) and (changed.endswith(b"\n") or not changed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "yard.jsonl"
            path.write_bytes(changed)
            assert verify([path]).ok is boundary

    @pytest.mark.parametrize("spelt", [b'"l2":12.30,', b'"l2": 12.3,'])
    def test_another_spelling_is_found_although_its_hash_holds(self, tmp_path, spelt):
        (record,) = chain([narration()])
        line = record.line().replace(b'"l2":12.3,', spelt)
        unhashed = line.replace(b'"hash":"%s",' % record.hash.encode(), b"")
        digest = hashlib.sha256(unhashed).hexdigest()
        (tmp_path / "yard.jsonl").write_bytes(line.replace(record.hash.encode(), digest.encode()) + b"\n")
        assert "not canonical JSON" in reasons(tmp_path)[0]

    def test_what_is_not_there_is_a_problem(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert [p.reason for p in verify([tmp_path / "empty", tmp_path / "absent.jsonl"]).problems] == [
            "the folder holds no journal (*.jsonl)",
            "cannot be read: No such file or directory",
        ]


class TestSignatures:
    @pytest.fixture
    def records(self, tmp_path) -> list[Record]:
        """Nine in three segments, signed at 3, 5 and 8."""
        records = chain(map(narration, range(9)))
        segmented(tmp_path, records, 1, 4, 6)
        for seq in (3, 5, 8):
            KEY.sign("yard", ChainEnd.of(records[seq - 1])).append(tmp_path)
        return records

    def test_show_what_the_chain_alone_cannot(self, tmp_path, records):
        segmented(tmp_path, records[:7], 1, 4, 6)
        (reason,) = reasons(tmp_path)
        assert "yard.signatures:3" in reason
        assert "ends with 7: lines were cut off its end" in reason

        forged = chain([*map(narration, range(3)), *(narration(s, l2=1.0) for s in range(3, 9))])
        segmented(tmp_path, forged, 1, 4, 6)
        (reason,) = reasons(tmp_path)
        assert "yard.signatures:2: record 5 is not the one that was signed" in reason

    def test_stay_when_retention_deletes(self, tmp_path, records):
        (tmp_path / "yard.000000000001.jsonl").unlink()
        started(tmp_path, records[2], KEY)
        assert reasons(tmp_path, keys=[KEY.public]) == []
        (tmp_path / "yard.000000000004.jsonl").unlink()
        started(tmp_path, records[4], KEY)
        assert reasons(tmp_path, keys=[KEY.public]) == []
        for path in tmp_path.glob("*.jsonl"):
            path.unlink()
        (tmp_path / "yard.jsonl").touch()
        assert "record 8 was signed" in reasons(tmp_path)[0]

    def test_the_beginning_cannot_be_cut_off_without_the_key(self, tmp_path, records):
        assert "not among the keys given" in reasons(tmp_path, keys=["2" * 64])[0]
        assert reasons(tmp_path, keys=["2" * 64, KEY.public]) == []
        (tmp_path / "yard.000000000001.jsonl").unlink()
        started(tmp_path, records[2])  # by hand
        assert reasons(tmp_path) == []
        assert "yard.start: it is not signed" in reasons(tmp_path, keys=[KEY.public])[0]
        checkpoint = (tmp_path / "yard.signatures").read_bytes().splitlines()[0]
        (tmp_path / "yard.start").write_bytes(checkpoint + b"\n")
        assert "no signature narrated-start/1" in reasons(tmp_path, keys=[KEY.public])[0]
        started(tmp_path, records[2], SigningKey(new_key()))
        assert "not among the keys given" in reasons(tmp_path, keys=[KEY.public])[0]
        started(tmp_path, records[2], KEY, "lot")
        assert "belongs to lot" in reasons(tmp_path, keys=[KEY.public])[0]
        started(tmp_path, records[2], KEY)
        assert reasons(tmp_path, keys=[KEY.public]) == []

    def test_cut_back_together_the_last_signature_shows_how_far_it_goes(self, tmp_path, records):
        """What no file can show: it must be noted elsewhere."""
        segmented(tmp_path, records[:5], 1, 4, 6)
        path = tmp_path / "yard.signatures"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
        result = verify([tmp_path], VerifyOptions(keys=[KEY.public]))
        (signed,) = result.attested.values()
        assert (result.ok, signed.seq) == (True, 5)
        assert signed.time.startswith(str(datetime.now(UTC).year))

    def test_out_of_order_are_reported(self, tmp_path, records):
        path = tmp_path / "yard.signatures"
        first, second, third = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(second + first + third)
        assert reasons(tmp_path) == [f"{path}:2: it is of record 3, behind one of 5"]

    def test_a_torn_one_is_cut_off_and_signing_goes_on(self, tmp_path, records):
        path = tmp_path / "yard.signatures"
        path.write_bytes(path.read_bytes() + b'{"camera":"ya')
        assert reasons(tmp_path) == []
        KEY.sign("yard", ChainEnd.of(records[8])).append(tmp_path)
        result = verify([tmp_path], VerifyOptions(keys=[KEY.public]))
        assert result.ok
        assert {signed.seq for signed in result.attested.values()} == {9}

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
    @given(data=st.data())
    def test_any_changed_byte_is_found(self, tmp_path, records, data):
        path = tmp_path / "yard.signatures"
        content = path.read_bytes()
        changed = bytearray(content)
        place = data.draw(st.integers(0, len(content) - 2))  # without the last line's end it is a torn one
        changed[place] ^= data.draw(st.sampled_from([1, 32, 128]))
        path.write_bytes(bytes(changed))
        result = reasons(tmp_path, keys=[KEY.public])
        path.write_bytes(content)
        assert result
        assert "yard.signatures" in result[0]


class TestOutputFolders:
    @pytest.fixture
    def output(self, tmp_path) -> Path:
        records = chain(map(narration, range(3)))
        for name in ("narrations.jsonl", "journal/yard.jsonl"):
            write(tmp_path / "replay" / name, records)
        return tmp_path / "replay"

    @pytest.mark.parametrize("name", ["narrations.jsonl", "journal/yard.jsonl"])
    @pytest.mark.parametrize("seconds", [(0, 1), (0, 1, 2, 3), (0, 1, 9), ()])
    def test_the_two_must_say_the_same(self, output, name, seconds):
        write(output / name, chain(map(narration, seconds)))
        (reason,) = reasons(output)
        assert "narrations.jsonl:" in reason
        assert "it is not the next record" in reason or "records of yard are missing" in reason

    def test_the_merged_one_does_not_pass_where_both_were_rewritten_alike(self, output):
        merged, own = output / "narrations.jsonl", output / "journal" / "yard.jsonl"
        noted = line_end(own.read_bytes().splitlines()[-1]).hash
        assert verify([merged], VerifyOptions(heads=[noted])).ok
        for path in (merged, own):
            path.write_bytes(path.read_bytes().replace(b"A car", b"A cat"))
        assert {problem.path for problem in verify([merged]).problems} == {own}

    def test_any_bytes_may_stand_for_a_camera(self, output):
        path = output / "narrations.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"camera":"yard"', b'"camera":"y\xffrd"'))
        (reason,) = reasons(output)
        assert "narrations.jsonl:1: it is not the next record" in reason

    def test_several_cameras_are_followed_one_by_one(self, tmp_path):
        chains = [chain(narration(second, camera) for second in range(3)) for camera in ("yard", "lot")]
        for records in chains:
            write(tmp_path / "journal" / f"{records[0].camera}.jsonl", records)
        woven = [record for pair in zip(*chains, strict=True) for record in pair]
        merged = write(tmp_path / "narrations.jsonl", woven)
        assert verify([merged]).lines == verify([tmp_path]).lines == 12  # the journals are checked as well
        write(merged, woven[:2] + woven[3:])
        (problem,) = verify([merged]).problems
        assert (problem.path, problem.line) == (merged, 4)
        write(merged, woven[:-1])
        assert str(verify([merged]).problems[0]) == f"{merged}: records of lot are missing"


class TestSegments:
    """Nine records in three files: 1 to 3, 4 and 5, 6 to 9."""

    @pytest.fixture
    def records(self, tmp_path) -> list[Record]:
        records = chain(map(narration, range(9)))
        segmented(tmp_path, records, 1, 4, 6)
        return records

    def test_are_followed_as_one_chain_whichever_is_named(self, tmp_path, records):
        for named in (tmp_path, tmp_path / "yard.jsonl", tmp_path / "yard.000000000004.jsonl"):
            result = verify([named])
            assert (result.ok, result.files, result.lines) == (True, 3, 9)
            assert result.ends[tmp_path / "yard.jsonl", "yard"].seq == 9
        (tmp_path / "yard.jsonl").write_bytes(b"")
        assert verify([tmp_path]).lines == 5  # just begun
        (tmp_path / "yard.jsonl").unlink()
        assert verify([tmp_path]).lines == 5  # not begun yet

    def test_the_bad_line_is_counted_within_its_file(self, tmp_path, records):
        path = tmp_path / "yard.000000000004.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + lines[1].replace(b"car", b"cat"))
        result = verify([tmp_path])
        assert (result.problems[0].path, result.problems[0].line, result.lines) == (path, 2, 8)
        path.unlink()
        assert "yard.jsonl:1: found record 6 of yard where 4 was expected" in reasons(tmp_path)[0]

    def test_behind_a_fault_the_rest_is_checked(self, tmp_path: Path, records: list[Record]) -> None:
        """Two altered lines and one that is gone: each is named, and nothing else."""
        segmented(tmp_path, [record for record in records if record.seq != 5], 1, 4, 6)
        for name in ("yard.000000000001.jsonl", "yard.jsonl"):
            path = tmp_path / name
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join([lines[0], lines[1].replace(b"car", b"cat"), *lines[2:]]))
        result = verify([tmp_path])
        assert [(problem.path.name, problem.line) for problem in result.problems] == [
            ("yard.000000000001.jsonl", 2), ("yard.jsonl", 1), ("yard.jsonl", 2),
        ]  # fmt: skip
        assert result.lines == 5

    def test_the_oldest_may_go_where_that_was_noted(self, tmp_path, records):
        for last in (4, 8):  # interrupted: the files are still there, the last deleted record or all of them
            started(tmp_path, records[last])
            assert verify([tmp_path]).ok
        (tmp_path / "yard.000000000001.jsonl").rename(tmp_path / "away")
        segmented(tmp_path, records[4:], 5, 6)
        (tmp_path / "yard.000000000004.jsonl").unlink()
        started(tmp_path, records[4])
        assert verify([tmp_path]).ok
        segmented(tmp_path, records, 1, 4, 6)
        (tmp_path / "yard.000000000005.jsonl").unlink()
        started(tmp_path, records[4].model_copy(update={"hash": "0" * 64}))
        assert "record 5 has another hash" in reasons(tmp_path)[0]
        (tmp_path / "yard.start").unlink()
        (tmp_path / "yard.000000000001.jsonl").unlink()
        assert "found record 4 of yard where 1 was expected" in reasons(tmp_path)[0]
        started(tmp_path, records[2])
        assert verify([tmp_path]).lines == 6
        started(tmp_path, records[2].model_copy(update={"hash": "0" * 64}))
        assert "prev is not the hash" in reasons(tmp_path)[0]
        started(tmp_path, records[1])
        assert "found record 4 of yard where 3 was expected" in reasons(tmp_path)[0]

    @pytest.mark.parametrize("time_s", [8, 7])
    def test_a_stream_id_that_does_not_rise_is_found(self, tmp_path, records, time_s):
        end = ChainEnd(9, records[8].hash)  # whose stream id is forgotten
        path = write(tmp_path / "yard.jsonl", [*records[5:], *chain([narration(time_s)], end)])
        assert reasons(tmp_path) == [f"{path}:5: record 10 of yard: its stream id does not rise"]

    def test_processes_share_the_work(self, tmp_path, records, monkeypatch):
        path = write(tmp_path / "lot.jsonl", chain(narration(second, "lot") for second in range(5)))
        for old, new in ((b"", b""), (b"lot-3", b"lot-4")):
            path.write_bytes(path.read_bytes().replace(old, new))
            alone = verify([tmp_path])
            with monkeypatch.context() as patch:
                patch.setattr(verification, "WORTH_PROCESSES", 0)
                assert verify([tmp_path]) == alone
        assert f"{path}:4: the hash does not match" in str(alone.problems[0])


class TestEvidence:
    @pytest.mark.parametrize(
        ("content", "changed", "line", "word"),
        [
            (b"both 1", b"both 2", 2, "was changed"),
            (b"3", b"", 3, "is missing"),
            (b"3", None, 3, "cannot be read"),
        ],
    )
    def test_a_picture_that_is_not_what_it_was_names_the_line(
        self, tmp_path, monkeypatch, content, changed, line, word
    ):
        store = EvidenceStore(tmp_path / "evidence", fsync=False)
        end, records = ChainEnd(), []
        for second in range(3):
            before, after = (store.put(b"%d" % number, "jpg") for number in (second, second + 1))
            evidence = Evidence(before=before, after=after, overlay=store.put(b"both %d" % second, "webp"))
            records += chain([narration(second)], end, evidence=evidence)
            end = ChainEnd.of(records[-1])
        journal = write(tmp_path / "journal" / "yard.jsonl", records).parent
        monkeypatch.chdir(journal)
        for named in (journal, tmp_path, Path(), Path("yard.jsonl")):
            result = verify([named])
            assert (result.ok, result.pictures) == (True, 7), named
        moved = (tmp_path / "evidence").rename(tmp_path / "moved")
        result = verify([journal])
        assert (result.ok, result.lines, result.pictures, result.unchecked) == (True, 3, 0, 7)
        moved.rename(tmp_path / "evidence")
        (picture,) = [path for path in store.folder.glob("*/*") if path.read_bytes() == content]
        picture.unlink()
        if changed:
            picture.write_bytes(changed)
        elif changed is None:
            picture.symlink_to(picture)  # as a picture on a disk that fails, it cannot be opened
        result = verify([journal])
        (problem,) = result.problems
        assert (problem.line, word in problem.reason) == (line, True)
        assert (result.lines, result.pictures) == (3, 6)
