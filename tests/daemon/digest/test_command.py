"""The verb: spans in words, formats, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon import cli

from . import planted

NOW = datetime(2026, 11, 24, 18, tzinfo=UTC)


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the verb on one visit a day, at seven and at ten."""
    visits = [
        planted.Visit("yard", "car", datetime(2026, 11, day, hour, 5, tzinfo=UTC), 60.0)
        for day in (23, 24)
        for hour in (7, 10)
    ]
    planted.write(tmp_path / "journal", visits)
    monkeypatch.setattr("daemon.commands.selection.present", lambda: NOW)
    return lambda *words: cli.main(["digest", *words, "-j", str(tmp_path), "--timezone", "UTC"])


@pytest.mark.parametrize(
    ("words", "title", "visits"),
    [
        ((), "Tue 24 Nov 2026 00:00 to 18:00", 2),
        (("since", "I", "left", "at", "8"), "Tue 24 Nov 2026 08:00 to 18:00", 1),
        (("yesterday",), "Mon 23 Nov 2026", 2),
        (("last", "night"), "Mon 23 Nov 2026 22:00 to Tue 24 Nov 2026 06:00", 0),
        (("the night of 23 to 24 November",), "Mon 23 Nov 2026 22:00 to Tue 24 Nov 2026 06:00", 0),
    ],
)
def test_a_span_in_words(digest, capsys, words, title, visits):
    assert digest(*words) == 0
    first, whole, *_ = capsys.readouterr().out.splitlines()
    assert first == title
    assert whole.startswith(f"* {visits} visit" if visits else "* Nobody and nothing came")


@pytest.mark.parametrize(
    ("words", "blamed"),
    [("sometime", "'sometime' is no time"), ("at night", "one span"), ("in december 2027", "to come")],
)
def test_what_is_no_span_is_refused_by_its_word(digest, capsys, words, blamed):
    assert digest(*words.split()) == 2
    assert blamed in capsys.readouterr().err


def test_json_names_records_and_the_query_that_finds_all(digest, capsys):
    assert digest("--json") == 0
    told = json.loads(capsys.readouterr().out)
    whole = told["sentences"][0]
    assert whole["records"] == ["yard-5", "yard-7"]
    since, until = "2026-11-24T00:00:00+00:00", "2026-11-24T18:00:00+00:00"
    assert whole["query"] == {"since": since, "until": until, "object": ["car"]}
    assert told["heads"]["yard"]["seq"] == 8
    assert digest() == 0
    assert f"yard, 8: {told['heads']['yard']['hash']}" in capsys.readouterr().out


def test_a_page_of_its_own(digest, tmp_path, capsys):
    assert digest("--html", str(tmp_path / "d.html")) == 0
    page = (tmp_path / "d.html").read_text()
    assert "2 visits on 1 camera: 2 cars" in page
    assert "default-src 'none'" in page
    assert capsys.readouterr().out == ""
    assert digest("--html", str(tmp_path / "none" / "d.html")) == cli.FAILED
    assert "cannot write" in capsys.readouterr().err


def test_a_page_goes_where_a_link_or_a_pipe_leads(digest, tmp_path):
    ours, theirs = os.pipe()
    link, page = tmp_path / "stdout", tmp_path / "page.html"
    for place in (Path(f"/dev/fd/{theirs}"), page):
        link.symlink_to(place)
        assert digest("--html", str(link)) == 0
        assert link.readlink() == place
        link.unlink()
    os.close(theirs)
    with open(ours, "rb") as pipe:  # noqa: PTH123 - a descriptor
        assert pipe.read() == page.read_bytes()
