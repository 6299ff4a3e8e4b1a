"""Remarks are kept beside the journals, by record and sentence; the newest counts."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from pipeline.feedback import FILE, LONGEST, TYPES, FeedbackError, FeedbackStore
from pipeline.record import RecordSentence


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "journal" / FILE


def test_remarks_are_kept_and_can_be_taken_back(path):
    with closing(FeedbackStore(path)) as store:
        store.set_opinion("yard-1", 0, "right", who="ann")
        store.set_opinion("yard-1", 1, "wrong", who="ann")
        store.set_opinion("yard-1", 0, "corrected", object="van", type="moved", who="ben")
        store.set_reviewed("yard-1", who="ann")
        store.set_note("yard-2", "first")
        store.set_note("yard-2", "the neighbour's van; \u2014 see 'yard'", who="ben")
    with closing(FeedbackStore(path, read_only=True)) as store:
        found = store.remarks(f"yard-{n}" for n in range(100_000))
        assert found == store.remarks()
        assert set(found) == {"yard-1", "yard-2"}
        first, second = found["yard-1"].feedback[0], found["yard-1"].feedback[1]
        assert (first.opinion, first.object, first.type, first.who) == ("corrected", "van", "moved", "ben")
        assert (second.opinion, second.object, second.type, second.who) == ("wrong", None, None, "ann")
        review, note = found["yard-1"].review, found["yard-2"].note
        assert review.who == "ann"
        assert (note.text, note.who) == ("the neighbour's van; \u2014 see 'yard'", "ben")
        assert (found["yard-1"].note, found["yard-2"].review) == (None, None)
    with closing(FeedbackStore(path)) as store:
        store.set_reviewed("yard-1", reviewed=False)
        store.set_note("yard-2", " ")
        for sentence in (0, 1):
            store.set_opinion("yard-1", sentence, "")
        assert store.remarks() == {}


@pytest.mark.parametrize(
    ("opinion", "values"),
    [
        ("maybe", {}),
        ("corrected", {}),
        ("wrong", {"object": "van"}),
        ("corrected", {"type": "flew"}),
        ("corrected", {"object": "x" * 10_000}),
    ],
)
def test_an_opinion_that_does_not_fit_is_refused(path, opinion, values):
    with closing(FeedbackStore(path)) as store:
        with pytest.raises(FeedbackError):
            store.set_opinion("yard-1", 0, opinion, **values)
        with pytest.raises(FeedbackError):
            store.set_note("yard-1", "x" * (LONGEST + 1))
        assert store.remarks() == {}


def test_a_correction_may_name_every_type_of_a_change():
    known = RecordSentence.model_fields["type"].annotation
    assert {*TYPES} == {*known.__args__} - {"none", "unknown"}  # type: ignore[union-attr]


def test_two_processes_and_threads_write_at_once(path):
    """The first to come makes the table, and nothing is lost."""
    program = (
        "import sys; from contextlib import closing; from pathlib import Path\n"
        "from pipeline.feedback import FeedbackStore\n"
        "with closing(FeedbackStore(Path(sys.argv[1]))) as store:\n"
        "    for n in range(40): store.set_opinion(f'{sys.argv[2]}-{n}', 0, 'wrong')\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    with closing(FeedbackStore(path)) as store:
        threads = [
            Thread(target=lambda t=t: [store.set_opinion(f"{t}-{n}", 0, "right") for n in range(40)])
            for t in ("c", "d")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [other.wait(60) for other in others] == [0, 0]
        assert len(store.remarks()) == 160
        with closing(FeedbackStore(path, read_only=True)) as reader:  # training, while the page is open
            assert len(reader.remarks()) == 160
            with pytest.raises(FeedbackError, match="readonly"):
                reader.set_reviewed("yard-1")


def test_what_is_no_feedback_is_named_and_others_may_not_read_it(path, tmp_path):
    with pytest.raises(FeedbackError, match="there is no feedback"):
        FeedbackStore(path, read_only=True)
    assert not path.exists()
    text = tmp_path / "notes.txt"
    text.write_text("no database, but long enough to be taken for one" * 100)
    with pytest.raises(FeedbackError, match=r"notes\.txt cannot be used"):
        FeedbackStore(text)
    with pytest.raises(FeedbackError, match="cannot be used"):
        FeedbackStore(tmp_path)
    FeedbackStore(path).close()
    assert path.stat().st_mode & 0o007 == 0
