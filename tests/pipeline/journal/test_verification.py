"""Verification: segments, pictures, signatures, several processes; and comparing two journals."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrations import narration

from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.journal import JournalError, verification
from pipeline.journal.comparison import compare
from pipeline.journal.segments import line_end
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.journal.verification import VerifyOptions, verify
from pipeline.narration.narration import FrameStamp, Narration
from pipeline.record import ChainEnd, Evidence, Record, build_record

KEY = SigningKey("1" * 64)
FRESH = ChainEnd()


def chain(narrations: Iterable[Narration], end: ChainEnd = FRESH, **kept: Evidence | float) -> list[Record]:
    records = []
    for each in narrations:
        records.append(build_record(each, end, **kept))
        end = ChainEnd.of(records[-1])
    return records


def write(path: Path, records: Sequence[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(record.line() + b"\n" for record in records))
    return path


def segmented(folder: Path, records: Sequence[Record], *firsts: int) -> None:
    """The records in files that begin with those numbers; the last one is the current."""
    for begin, stop in zip(firsts, [*firsts[1:], None], strict=True):
        name = f"yard.{begin:012d}.jsonl" if stop else "yard.jsonl"
        write(folder / name, [r for r in records if begin <= r.seq < (stop or 10**9)])


def started(folder: Path, record: Record) -> None:
    (folder / "yard.start").write_bytes(rfc8785.dumps({"hash": record.hash, "seq": record.seq}) + b"\n")


def reasons(folder: Path, **options: object) -> list[str]:
    return [str(problem) for problem in verify([folder], VerifyOptions(**options)).problems]


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
        KEY.sign_start("yard", ChainEnd.of(records[2])).save(tmp_path / "yard.start")
        assert reasons(tmp_path, keys=[KEY.public]) == []
        (tmp_path / "yard.000000000004.jsonl").unlink()
        KEY.sign_start("yard", ChainEnd.of(records[4])).save(tmp_path / "yard.start")
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
        SigningKey(new_key()).sign_start("yard", ChainEnd.of(records[2])).save(tmp_path / "yard.start")
        assert "not among the keys given" in reasons(tmp_path, keys=[KEY.public])[0]
        KEY.sign_start("lot", ChainEnd.of(records[2])).save(tmp_path / "yard.start")
        assert "belongs to lot" in reasons(tmp_path, keys=[KEY.public])[0]
        KEY.sign_start("yard", ChainEnd.of(records[2])).save(tmp_path / "yard.start")
        assert reasons(tmp_path, keys=[KEY.public]) == []

    def test_cut_back_together_the_last_signature_shows_how_far_it_goes(self, tmp_path, records):
        """What no file can show: it must be noted elsewhere."""
        segmented(tmp_path, records[:5], 1, 4, 6)
        path = tmp_path / "yard.signatures"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
        result = verify([tmp_path], VerifyOptions(keys=[KEY.public]))
        (signed,) = result.signed.values()
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
        assert {signed.seq for signed in result.signed.values()} == {9}

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


class TestComparing:
    def both(self, tmp_path: Path, live: Sequence[Record], replayed: Sequence[Record]) -> tuple[Path, Path]:
        write(tmp_path / "live" / "yard.jsonl", live)
        write(tmp_path / "replay" / "journal" / "yard.jsonl", replayed)
        return tmp_path / "live", tmp_path / "replay"

    def test_what_differs_is_named(self, tmp_path):
        other = Sentence("A dog has appeared.", "appeared", "dog", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)
        replayed = chain([narration(0), narration(1, sentences=(other,)), narration(3), narration(70)])
        comparison = compare(*self.both(tmp_path, chain(map(narration, range(4))), replayed))
        assert comparison.same["yard"].records == 2
        named = {difference.id: difference.reason for difference in comparison.differences}
        assert sorted(named) == ["yard-1", "yard-2", "yard-70"]
        assert "text is 'A car has appeared.'" in named["yard-1"]
        assert "A dog" in named["yard-1"]
        assert "only in" in named["yard-2"]
        assert "live" in named["yard-2"]
        assert "replay" in named["yard-70"]

    def test_events_may_agree_under_other_settings(self, tmp_path):
        live = chain(narration(20 * s) for s in range(3))
        replayed = chain(narration(20 * s + 1, settings_sha256="e" * 64) for s in range(3))
        comparison = compare(*self.both(tmp_path, live, replayed))
        assert (comparison.same["yard"].events, comparison.differences) == (3, ())
        replayed = chain(narration(20 * s, settings_sha256="e" * 64) for s in range(3))
        (difference,) = compare(*self.both(tmp_path, live, replayed)).differences
        assert "config_sha256 is ddd" in difference.reason

    def test_another_order_is_a_difference(self, tmp_path):
        swapped = chain([narration(0), narration(2), narration(1)])
        (difference,) = compare(*self.both(tmp_path, swapped, chain(map(narration, range(3))))).differences
        assert (difference.id, "stands elsewhere" in difference.reason) == ("yard-1", True)

    def test_a_sentence_that_keeps_its_time_hides_no_other_date(self, tmp_path):
        """Nor does another id pass where all other records are of the same footage."""
        live, back_s = [narration(100 * s) for s in range(6)], 86400.0
        first, back = live[0], timedelta(seconds=back_s)
        moved = replace(
            first,
            id="yard-forged",
            before=replace(first.before, time=first.before.time - back),
            after=replace(first.after, time=first.after.time - back),
            sentences=(replace(first.sentences[0], moment_s=back_s),),
        )
        renamed = replace(first, id="yard-forged")
        for forged, rest in ((moved, []), (moved, live[1:]), (renamed, live[1:])):
            comparison = compare(*self.both(tmp_path, chain([forged, *rest]), chain([first, *rest])))
            assert "yard-forged" in {each.id for each in comparison.differences}

    def test_a_recording_whose_frames_fell_elsewhere_is_matched_by_its_events(self, tmp_path):
        """Other ids, other frames, other sentences in a record; one event is another, one names a van."""
        van = Sentence("A van has appeared.", "appeared", "van", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)
        dog = Sentence("A dog has appeared.", "appeared", "dog", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)
        live = [narration(60.0 * s) for s in range(10)]
        recorded = [
            replace(
                narration(60.0 * s + 1.3),
                id=f"recorded-{s}",
                before=FrameStamp(live[s].before.time, 7, f"{s + 1000:064x}"),
                sentences={4: (dog,), 6: (van,)}.get(s, live[s].sentences),
            )
            for s in range(10)
        ]
        comparison = compare(*self.both(tmp_path, chain(live), chain(recorded)))
        same = comparison.same["yard"]
        assert (same.records, same.events, same.of_events) == (0, 9, 10)
        assert [(each.id, each.reason) for each in comparison.differences] == [
            ("yard-240", f"only in {tmp_path}/live: 'A car has appeared.'"),
            ("recorded-4", f"only in {tmp_path}/replay: 'A dog has appeared.'"),
            ("yard-360", f"object is 'car', in {tmp_path}/replay 'van'"),
        ]

    def test_a_record_that_is_there_twice_agrees_once(self, tmp_path):
        comparison = compare(*self.both(tmp_path, chain([narration(), narration()]), chain([narration()])))
        same = comparison.same["yard"]
        assert (same.records, same.events, same.of_events) == (1, 0, 1)
        assert [each.id for each in comparison.differences] == ["yard-0"]

    @pytest.mark.parametrize("other", [{"rate_hz": 2.0}, {"state_sha256": "e" * 64}])
    def test_another_rate_or_state_is_named_once_and_by_itself(self, tmp_path, other):
        live, replayed = (
            chain([narration(s, **{"rate_hz": 5.0, **more}) for s in range(3)]) for more in ({}, other)
        )
        comparison = compare(*self.both(tmp_path, live, replayed))
        (difference,) = comparison.differences
        assert (difference.id, comparison.same["yard"].records) == ("", 3)
        assert difference.reason.startswith(*other)

    def test_when_a_track_was_missed_is_no_difference(self, tmp_path):
        lost = [narration(0), narration(1, held="lost")]
        assert compare(*self.both(tmp_path, chain(lost), chain([narration(0)]))).differences == ()

    def test_a_camera_that_is_gone_is_a_difference(self, tmp_path):
        live, replay = self.both(tmp_path, chain([narration()]), chain([narration()]))
        write(live / "lot.jsonl", chain([narration(camera="lot")]))
        (difference,) = compare(live, replay).differences
        assert (difference.camera, difference.reason) == ("lot", f"only in {live}, records: 1")
        assert compare(live / "yard.jsonl", replay).differences == ()
        with pytest.raises(JournalError, match="cannot read"):
            compare(tmp_path / "absent.jsonl", replay)
        (replay / "journal" / "yard.jsonl").write_bytes(b"{}\n")
        with pytest.raises(JournalError, match=r"yard\.jsonl:1"):
            compare(live, replay)

    def test_latency_limits_and_absent_pictures_do_not_count(self, tmp_path):
        one, two = (Evidence(before="sha256:" + digit * 64) for digit in "12")
        limited = [narration(s, settings_sha256="e" * 64, held="hourly") for s in range(3)]
        live = chain(map(narration, range(3)), evidence=one, latency_ms={"batch": 12.3})
        for replayed, differing in (
            (chain(map(narration, range(3))), []),
            (chain(map(narration, range(3)), evidence=one), []),
            (chain(map(narration, range(3)), evidence=two), ["evidence"] * 3),
            (chain(limited), ["--limits"]),
        ):
            comparison = compare(*self.both(tmp_path, live, replayed))
            assert comparison.same["yard"].records == (0 if differing == ["evidence"] * 3 else 3)
            result = comparison.differences
            assert all(word in each.reason for word, each in zip(differing, result, strict=True))


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
            evidence = Evidence(
                before=store.put(b"%d" % second, "jpg"),
                after=store.put(b"%d" % (second + 1), "jpg"),
                overlay=store.put(b"both %d" % second, "webp"),
            )
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
