"""`narrated hold`: held, listed and released by name; what cannot be meant is refused."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from narrations import narration

from pipeline.journal import Journal
from pipeline.journal.custody import Hold, add_hold, load_holds


@pytest.fixture
def state(tmp_path):
    with Journal(tmp_path / "journal", "yard", fsync=False) as journal:
        journal.append(narration(0))
    return tmp_path


SPAN = ("--since", "2024-05-01", "--until", "2024-05-02", "--reason", "claim 7")


def test_a_hold_is_listed_until_it_is_released(narrated, state, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "anna")
    place = ("--journal", state)
    held = narrated("hold", "theft", *place, *SPAN, "--camera", "yard")
    assert (held.code, held.out) == (0, "1 record held\n")
    later = ("--since", "2024-05-02", "--until", "2024-05-03", "--reason", "claim 8")
    assert narrated("hold", "later", *place, *later).out == "0 records held\n"
    assert narrated("hold", "later", *place, "--release").code == 0
    listed = narrated("hold", *place).out
    assert "theft: yard, 2024-05-01 00:00 to 2024-05-02 00:00, held until it is released by anna: " in listed
    assert narrated("hold", "theft", *place, *SPAN).code == 1
    assert narrated("hold", "theft", *place, "--release").code == 0
    (state / "n.yaml").write_text(f"version: 1\nstate: {state}\ncameras: {{yard: {{url: yard.mp4}}}}\n")
    assert narrated("hold", "-c", state / "n.yaml").out == ""
    assert narrated("hold", "theft", *place, "--release").code == 1


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--since", "2024-05-01"),
        ("--since", "2024-05-02", "--until", "2024-05-01", "--reason", "x"),
        ("--since", "sometime", "--reason", "x"),
        (*SPAN, "--ends", "2024-06-01"),
        (*SPAN, "--camera", "yrd"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_holds_nothing(narrated, state, options):
    assert narrated("hold", "theft", "--journal", state, *options).code == 2
    assert not (state / "holds.json").exists()


def test_holds_that_are_made_at_the_same_time_are_all_kept(state):
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    span = {"since": moment, "until": moment, "made": moment, "reason": "claim"}
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(add_hold, state / "journal", Hold(name=f"{n}", **span)) for n in range(40)]:
            made.result()
    assert len(load_holds(state / "journal")) == 40


def test_its_hours_are_by_the_time_zone_of_the_configuration(narrated, state):
    text = f"version: 1\nstate: {state}\ntimezone: Asia/Tokyo\ncameras: {{yard: {{url: yard.mp4}}}}\n"
    (state / "n.yaml").write_text(text)
    assert narrated("hold", "theft", "-c", state / "n.yaml", *SPAN).code == 0
    assert "2024-04-30 15:00 to 2024-05-01 15:00" in narrated("hold", "--journal", state).out
    assert "2024-05-01 00:00 to 2024-05-02 00:00" in narrated("hold", "-c", state / "n.yaml").out


def test_a_folder_without_journals_is_refused_and_nothing_written_beside_it(narrated, tmp_path):
    (tmp_path / "pictures").mkdir()
    refused = narrated("hold", "theft", "--journal", tmp_path / "pictures", *SPAN)
    assert (refused.code, refused.out) == (1, "")
    assert "holds no journals" in refused.err
    assert not (tmp_path / "holds.json").exists()


@pytest.mark.parametrize("folder", [".", "notes/..", "../journal"])
def test_retention_finds_a_hold_by_a_relative_path(narrated, state, monkeypatch, folder):
    (state / "journal" / "notes").mkdir()
    monkeypatch.chdir(state / "journal")
    assert narrated("hold", "theft", "--journal", folder, *SPAN).code == 0
    assert [each.name for each in load_holds(state / "journal")] == ["theft"]


def test_a_hold_lies_beside_a_link_to_the_journals(narrated, state):
    (state / "disk").mkdir()
    (state / "journal").rename(state / "disk" / "journal")
    (state / "journal").symlink_to(state / "disk" / "journal")
    assert narrated("hold", "theft", "--journal", state / "journal", *SPAN).code == 0
    assert [each.name for each in load_holds(state / "journal")] == ["theft"]
