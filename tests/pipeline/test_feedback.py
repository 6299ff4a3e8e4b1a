"""What people say of narrations: kept beside the journals, by sentence, the newest counts."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from pipeline.feedback import FILE, LONGEST_NOTE, Correction, FeedbackError, FeedbackStore, Opinion
from pipeline.record_members import RecordSentence

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / FILE


def test_the_newest_of_a_sentence_counts(path: Path) -> None:
    seconds = count()
    with FeedbackStore(path, now=lambda: START + timedelta(seconds=next(seconds))) as store:
        van = Correction(object="van", box=(0.1, 0.2, 0.3, 0.4))
        store.say("yard-1", 0, Opinion.RIGHT, who="ann")
        store.say("yard-1", 1, Opinion.WRONG, who="ann")
        store.say("yard-1", 0, Opinion.CORRECTED, van, who="ben")
        store.say("yard-2", 0, Opinion.CORRECTED, Correction(type="moved"))
    with FeedbackStore(path, read_only=True) as store:
        second, first, last = store.newest()
        assert (first.record, first.sentence, first.opinion) == ("yard-1", 0, Opinion.CORRECTED)
        assert first.correction == van
        assert (first.who, first.time) == ("ben", START + timedelta(seconds=2))
        assert (second.sentence, second.opinion, second.correction) == (1, Opinion.WRONG, None)
        assert (last.correction, last.who) == (Correction(type="moved"), "")
        assert list(store.remarks(["yard-1"])["yard-1"].feedback) == [0, 1]
        assert store.remarks(["yard-1"])["yard-1"].feedback[0] == first


def test_marks_and_notes_are_of_a_record_and_can_be_taken_back(path: Path) -> None:
    with FeedbackStore(path, now=lambda: START) as store:
        store.set_reviewed("yard-1", who="ann")
        store.set_note("yard-2", "first")
        store.set_note("yard-2", "the neighbour's van; \u2014 see 'yard'", who="ben")
        found = store.remarks(["yard-1", "yard-2", "yard-3"])
        assert set(found) == {"yard-1", "yard-2"}
        review, note = found["yard-1"].review, found["yard-2"].note
        assert review is not None
        assert note is not None
        assert (review.who, review.time) == ("ann", START)
        assert (note.text, note.who) == ("the neighbour's van; \u2014 see 'yard'", "ben")
        assert found["yard-1"].note is None
        assert found["yard-2"].review is None
        store.say("yard-1", 0, Opinion.WRONG)
        store.set_reviewed("yard-1", reviewed=False)
        store.set_note("yard-2", " ")
        store.withdraw("yard-1", 0)
        assert store.remarks(["yard-1", "yard-2"]) == {}
        assert store.newest() == []


def test_many_records_are_looked_up_at_once(path: Path) -> None:
    with FeedbackStore(path) as store:
        for n in range(0, 200, 2):
            store.set_reviewed(f"yard-{n}")
        assert len(store.remarks(f"yard-{n}" for n in range(100_000))) == 100


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"type": "none"},
        {"type": "flew"},
        {"object": " "},
        {"object": "x" * 300},
        {"box": (0.5, 0.5, 0.6, 0.1)},
        {"box": (0.5, 0.5, 0.0, 0.1)},
        {"box": (0.5, 0.5, float("nan"), 0.1)},
        {"box": (0.5, 0.5, 0.1)},
    ],
)
def test_a_correction_that_does_not_fit_is_refused(values: dict) -> None:
    with pytest.raises(FeedbackError):
        Correction(**values)


def test_contradictions_and_long_notes_are_refused(path: Path) -> None:
    with FeedbackStore(path) as store:
        wrong = [
            lambda: store.say("yard-1", 0, Opinion.CORRECTED),
            lambda: store.say("yard-1", 0, Opinion.WRONG, Correction(object="van")),
            lambda: store.set_note("yard-1", "x" * (LONGEST_NOTE + 1)),
        ]
        for say in wrong:
            with pytest.raises(FeedbackError):
                say()
        assert store.newest() == []


def test_a_correction_may_name_every_type_of_a_change() -> None:
    (known,) = (RecordSentence.model_fields["type"].annotation,)
    for name in known.__args__:  # type: ignore[union-attr]
        if name not in ("none", "unknown"):
            assert Correction(type=name).type == name


def test_two_processes_and_threads_write_at_once(path: Path) -> None:
    """The first to come makes the tables; nobody loses a word."""
    program = (
        "import sys; from pathlib import Path; from pipeline.feedback import *\n"
        "with FeedbackStore(Path(sys.argv[1])) as store:\n"
        "    for n in range(40): store.say(f'{sys.argv[2]}-{n}', 0, Opinion.WRONG)\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    with FeedbackStore(path) as store:
        threads = [
            Thread(target=lambda t=t: [store.say(f"{t}-{n}", 0, Opinion.RIGHT) for n in range(40)])
            for t in ("c", "d")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [other.wait(60) for other in others] == [0, 0]
        assert len(store.newest()) == 160
        with FeedbackStore(path, read_only=True) as reader:  # training, while the page is open
            assert len(reader.newest()) == 160
            with pytest.raises(FeedbackError, match="readonly"):
                reader.set_reviewed("yard-1")


def test_a_file_of_another_version_is_named_and_left_alone(path: Path) -> None:
    FeedbackStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(FeedbackError, match=r"version 7 and this narrated knows 1: .*move the file away"):
            FeedbackStore(path, read_only=read_only)
    assert path.read_bytes() == before


def test_what_is_no_feedback_is_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FeedbackError, match="there is no feedback"):
        FeedbackStore(path, read_only=True)
    assert not path.exists()
    text = tmp_path / "notes.txt"
    text.write_text("no database, but long enough to be taken for one" * 100)
    with pytest.raises(FeedbackError, match=r"notes\.txt is damaged"):
        FeedbackStore(text)
    other = tmp_path / "index.sqlite3"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE files (id)")
    db.close()
    for read_only in (False, True):
        with pytest.raises(FeedbackError, match="not a feedback file"):
            FeedbackStore(other, read_only=read_only)
    with pytest.raises(FeedbackError, match="cannot be opened"):
        FeedbackStore(tmp_path)


def test_others_may_not_read_it(path: Path) -> None:
    FeedbackStore(path).close()
    assert path.stat().st_mode & 0o007 == 0
