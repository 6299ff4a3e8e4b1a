"""The command: what it prints, where, and with which exit code; what it does not load."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from houses import House

from daemon import cli
from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

from .conftest import said, seconds

NOW = datetime(2026, 5, 14, 11, tzinfo=UTC)
DOCS = Path(__file__).parents[3] / "docs" / "query.md"
JPEG = bytes.fromhex("ffd8ffe000104a464946000101") + b"no picture, but bytes\xff\xd9"

LINES = """\
12T20:41:07 front_door appeared person 0.93 1 A person has come in and is now at the entrance.
13T05:12:40 yard appeared truck 0.88 1 A lorry has driven in from the left and is now in the lot.
13T05:40:02 yard appeared truck 0.71 2 Two lorries have parked in the lot.
13T07:03:33 yard disappeared truck 0.9 1 The lorry in the lot has driven off to the right.
13T15:20:11 yard appeared car 0.82 1 A red car has appeared on the left.
13T22:17:54 yard disappeared car 0.64 1 The red car in the lot has driven off.
14T06:58:20 front_door appeared person 0.97 1 A person in dark clothes has arrived at the entrance.
14T07:02:01 front_door disappeared person 0.85 1 The person at the entrance has walked off.
"""
DAY = [
    (moment, camera, said(text, kind, thing, float(confidence), int(count)))
    for moment, camera, kind, thing, confidence, count, text in (
        line.split(" ", 6) for line in LINES.splitlines()
    )
]


@pytest.fixture
def lived(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """Two days in the life of a house, asked on 14 May 2026 at noon in London."""
    for number, (moment, camera, sentence) in enumerate(DAY, 1):
        house.tell(seconds(f"2026-05-{moment}"), sentence, camera=camera, id=f"{camera}-{number}")
    monkeypatch.setattr("daemon.commands.selection.present", lambda: NOW)
    return house


def run(house: House, *arguments: str) -> int:
    return cli.main(["query", "--journal", str(house.state), "--timezone", "Europe/London", *arguments])


def examples() -> list[tuple[str, str]]:
    """Commands of the page, each with what it prints."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


@pytest.mark.parametrize(("command", "printed"), examples())
def test_the_pages_examples_are_true(lived, capsys, command, printed):
    program, verb, *arguments = shlex.split(command)
    assert (program, verb) == ("narrated", "query")
    code = run(lived, *arguments)
    out, err = capsys.readouterr()
    shown = (err + out).replace(str(lived.state), "/var/lib/narrated")
    assert shown.rstrip() == printed.rstrip()
    assert code == (2 if "cannot be answered" in shown else 0)


def test_json_lines_are_the_records_and_what_is_known_of_them(lived, capsys):
    assert run(lived, "--json", "--object", "car") == 0
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["camera"], first["seq"], first["marks"], first["pictures"]) == ("yard", 4, [], {})
    assert last["sentences"][0]["text"] == DAY[5][2].text
    assert last["local_time"] == "2026-05-13T23:17:54+01:00"


def test_pictures_that_are_gone_are_never_named(house, capsys):
    store = EvidenceStore(house.state / "evidence", fsync=False)
    kept, gone = (store.put(JPEG + bytes([n]), "jpg") for n in range(2))
    house.tell(0, evidence=Evidence(before=gone, overlay=kept))
    house.tell(1, evidence=Evidence(before=gone))
    path = store.find(gone)
    assert path
    path.unlink()
    assert run(house, "--json") == 0
    out = capsys.readouterr().out
    assert gone[7:] not in out
    assert kept[7:] in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--first", "--last"], "give one of them"),
        (["--rule", "a vna comes"], "'vna' is not understood"),
        (["--rule", "a lorry", "--object", "car"], "--rule goes with --camera"),
        (["--rule", "a lorry", "--camera", "nowhere"], "front_door, yard"),
        (["--by", "moon"], "hour-of-day"),
        (["--since", "soon"], "write 7d"),
        (["--between", "6", "26"], "write 22:00"),
        (["--timezone", "Mars"], "write UTC"),
        (["--camera", "nowhere"], "front_door, yard"),
        (["wo", "ist", "mein", "Auto"], "how many people came in today"),
        (["who", "came", "to", "the", "garden"], "entrance"),
        (["--until", "0001-01-01"], ""),
        (["--since", "9999-12-31"], ""),
        (["cars", "in", "the", "last", "999999999", "hours"], ""),
        (["cars", "on", "31", "December", "9999"], ""),
    ],
)
def test_what_cannot_be_asked_says_what_can(lived, capsys, arguments, reason):
    assert run(lived, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert reason in err


def test_a_zone_that_no_sentence_names_is_said(lived, capsys):
    assert run(lived, "--zone", "at the entrnace") == 0
    assert "'entrnace' is no place here; did you mean entrance?" in capsys.readouterr().err
    assert run(lived, "--zone", "lot", "--object", "person") == 0
    assert capsys.readouterr().err == "nothing was found\n"


def test_before_the_first_narration(tmp_path, capsys):
    assert cli.main(["query", "--journal", str(tmp_path / "none")]) == 1
    assert "give a folder of journals" in capsys.readouterr().err
    assert cli.main(["query", "--journal", str(tmp_path), "--count"]) == 0
    assert capsys.readouterr().out.split() == ["visits", "narrations", "0", "0"]
    for verb in (["query"], ["export", "--out", str(tmp_path / "o")]):
        assert cli.main([*verb, "--journal", str(tmp_path), "how many cars"]) == 1
        assert "no narrations yet" in capsys.readouterr().err


def test_what_does_not_verify_is_said_and_shown(lived, capsys):
    for journal in lived.journals.values():
        journal.close()
    path = lived.folder / "yard.jsonl"
    path.write_bytes(path.read_bytes().replace(b"A red car", b"A bad car"))
    assert run(lived, "--text", "bad") == 0
    out, err = capsys.readouterr()
    assert "A bad car has appeared on the left.  ! does not verify" in out
    assert f"does not verify: {path}:4" in err


def test_options_beside_a_question_count_more(lived, tmp_path, capsys):
    assert run(lived, "--camera", "yard", "--count", "what happened yesterday") == 0
    out, err = capsys.readouterr()
    assert "on camera yard" in err
    shown, named = out.splitlines()[-2:]
    assert shown.split() == ["4", "5"]
    assert named == "from the records yard-2 to yard-6"
    config = tmp_path / "narrated.yaml"
    config.write_text(f"version: 1\nstate: {lived.state}\ncameras: {{yard: {{url: /nowhere.mp4}}}}\n")
    assert cli.main(["query", "--config", str(config), "--count"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split() == ["6", "8"]


def test_it_loads_no_decoders_no_torch_and_not_the_records_model(lived):
    script = (
        "import sys; from daemon import cli\n"
        "heavy = {'torch', 'numba', 'av', 'cv2', 'pipeline.record'}\n"
        "for line in sys.stdin.read().splitlines():\n"
        "    code = cli.main(['query', *line.split('|')])\n"
        "    assert not heavy & set(sys.modules), (line, heavy & set(sys.modules))\n"
    )
    asked = ("--last", "when did a person last come to the entrance", "--by|hour", "--json", "nonsense")
    lines = ["--help", *(f"-j|{lived.state}|{each}" for each in asked)]
    words, text = [sys.executable, "-c", script], "\n".join(lines)
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_places_of_the_configuration_are_known_before_a_record_names_them(lived, capsys, tmp_path) -> None:
    config = tmp_path / "house.yaml"
    config.write_text(
        "version: 1\ncameras:\n  yard:\n    url: yard.mp4\n"
        "    zones: [{name: at the far door, polygon: [[0, 0], [1, 0], [1, 1]]}]\n"
        "    lines: [{name: the corridor line, points: [[0, 1], [1, 0]], directions: [towards us, away]}]\n"
    )
    given = ["-c", str(config)]
    assert run(lived, *given, "--rule", "a person at the far door for 10s") == 0
    assert run(lived, *given, "who came to the far door today?") == 0
    assert run(lived, *given, "how many people crossed the corridor line towards us") == 0
    assert run(lived, "who was at the far door?") == 2
    told = said("A person has crossed the corridor line towards us.")
    lived.tell(seconds("2026-05-14T09:00:00"), told)
    assert run(lived, "how many people crossed the corridor line towards us") == 0
    assert capsys.readouterr().err.endswith('at "corridor line towards us"\n')
