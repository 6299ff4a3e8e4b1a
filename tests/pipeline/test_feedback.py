"""Remarks are kept beside the journals, by record and sentence; the newest counts."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

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
        yard, other = found["yard-1"], found["yard-2"]
        kept = [(f.opinion, f.object, f.type, f.who) for f in (yard.feedback[0], yard.feedback[1])]
        assert kept == [("corrected", "van", "moved", "ben"), ("wrong", None, None, "ann")]
        assert (yard.review.who, yard.note, other.review) == ("ann", None, None)
        assert (other.note.text, other.note.who) == ("the neighbour's van; \u2014 see 'yard'", "ben")
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
        with ThreadPoolExecutor(2) as pool:
            ids = [f"{name}-{n}" for name in ("c", "d") for n in range(40)]
            list(pool.map(lambda each: store.set_opinion(each, 0, "right"), ids))
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
