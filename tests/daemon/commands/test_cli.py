"""The command line: codes, single lines on stderr, quick help."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from daemon.cli import VERBS
from models import SHIPPED, load_captioner


@pytest.mark.parametrize("words", [["--help"], ["tail", "--help"], ["check-config", "--help"]])
def test_what_needs_no_pictures_is_quick(words):
    """Nothing heavy is loaded, and of the verbs' files none but that of the one that is called."""
    script = (
        f"import sys; from daemon import cli; code = cli.main({words!r});"
        "heavy = {'torch', 'numba', 'av', 'cv2', 'numpy', 'redis', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "files = {*cli.VERBS.values()};"
        "print(sorted(f for f in files if f'daemon.commands.{f}' in sys.modules), file=sys.stderr);"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if words == ["--help"]:
        listed = done.stdout.partition("Commands:")[2]
        shown = [listed.find(f"\n  {verb} ") for verb in VERBS]
        assert -1 not in shown
        assert shown == sorted(shown), "in their order"
    else:
        assert done.stderr == f"['{VERBS[words[0]]}']\n"


def test_help_reads_each_file_once(narrated, monkeypatch):
    read, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda source: read.append(source) or parse(source))
    assert narrated("--help").code == 0
    assert len(read) == len({*VERBS.values()})


def test_the_command_line_helps(narrated):
    for verb in VERBS:
        done = narrated(verb, "-h")
        assert (done.code, f"Usage: narrated {verb} " in done.out) == (0, True)
    done = narrated("chekc-config")
    assert (done.code, "Did you mean 'check-config'?" in done.err) == (2, True)
    done = narrated("--version")
    assert (done.code, done.out) == (0, "narrated 0.1.0\n")
    for wrong in (["fly"], ["replay"], ["describe", "one.png"]):
        done = narrated(*wrong)
        assert (done.code, "Traceback" in done.err) == (2, False)


def test_describe_two_pictures(narrated, pictures, checkpoint, tmp_path):
    picture = tmp_path / "out.png"
    done = narrated("describe", *pictures, "--captioner-file", checkpoint, "--out", picture)
    assert (done.code, done.out) == (0, "A box has appeared.\n")
    drawn = cv2.imread(str(picture))
    assert drawn.shape[1] > 2 * 320 - 20

    back = narrated("describe", *reversed(pictures), "--gap", "90s", "--captioner-file", checkpoint, "--json")
    members = json.loads(back.out)
    [sentence] = members["sentences"]
    assert (members["abstained"], members["gap_s"]) == (None, 90.0)
    assert sentence["text"] == "The box is gone."
    x, y, width, height = sentence["box"]
    assert x < (30 + 35) / 320 < x + width
    assert y < (90 + 35) / 240 < y + height
    assert 0.5 < sentence["confidence"] <= 1

    same = narrated("describe", pictures[0], pictures[0], "--captioner-file", checkpoint)
    assert (same.code, same.out) == (0, "Nothing has changed.\n")


def test_describe_many_pairs(narrated, pictures, checkpoint, tmp_path):
    before, after = (path.name for path in pictures)
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((10, 10, 3), np.uint8))
    lines = [{"id": i, "before": before, "after": after} for i in range(9)]
    lines[0]["gap_s"] = 5
    lines[4] = {"id": "absolute", "before": str(pictures[1]), "after": str(pictures[0])}
    lines[6] = {"id": "broken", "before": before, "after": "absent.png"}
    lines[3] = {"id": "null", "before": "\0.png", "after": after}
    lines[7] = {"id": "sizes", "before": before, "after": "small.png"}
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\nno json\n\n")
    out = tmp_path / "told.jsonl"
    done = narrated("describe", "--pairs", file, "--gap", "2h", "--out", out, "--captioner-file", checkpoint)
    assert done.code == 3
    assert all(word in done.err for word in ("absent.png", "10x10", "pairs.jsonl:10"))
    assert len(done.err.splitlines()) == 4
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert [pair["id"] for pair in told] == ["0", "1", "2", "absolute", "5", "8"]
    texts = [pair["sentences"][0]["text"] for pair in told]
    assert texts == [*["A box has appeared."] * 3, "The box is gone.", *["A box has appeared."] * 2]
    assert [pair["gap_s"] for pair in told[:2]] == [5.0, 7200.0]
    assert set(told[0]["sentences"][0]) == {"text", "box", "confidence"}


def test_describe_says_what_is_wrong(narrated, pictures, checkpoint):
    done = narrated("describe", pictures[0], "absent.png", "--captioner-file", checkpoint)
    assert done.code == 1
    assert done.err.startswith("narrated: absent.png: cannot be read")
    done = narrated("describe", *pictures, "--captioner-file", pictures[0])
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    for wrong in (("--out", "picture.xyz"), ("--gap", "soon")):
        assert narrated("describe", *pictures, "--captioner-file", checkpoint, *wrong).code == 2
    content = pictures[0].read_bytes()
    for given in (pictures, ("--pairs", pictures[0])):  # what is told of would be replaced
        assert narrated("describe", *given, "--out", pictures[0]).code == 2
    assert pictures[0].read_bytes() == content


def test_doctor(narrated, monkeypatch):
    done = narrated("doctor")
    assert done.code == 0, done.out
    checks = [line.partition(":")[0] for line in done.out.splitlines()]
    assert checks == ["versions", "kernels", "captioner"]
    monkeypatch.setitem(SHIPPED, "grounded", Path("none.safetensors"))
    done = narrated("doctor")
    assert done.code == 1
    assert "no checkpoint at none.safetensors" in done.err


def test_check_config_says_whether_the_server_answers(narrated, checkpoint, tmp_path, server):
    config = tmp_path / "n.yaml"
    for url, warned in (
        (server.url, ""),
        (f"unix://{tmp_path}/none.sock", "narrated: warning: redis.url: unix://"),
    ):
        config.write_text(
            f"version: 1\nstate: {tmp_path}/s\nredis: {{url: '{url}'}}\n"
            f"captioner: {{model: {checkpoint}}}\ncameras: {{a: {{url: 'rtsp://h/1'}}}}\n"
        )
        done = narrated("check-config", "-c", config)
        assert (done.code, done.out) == (0, f"{config}: fine, 1 camera\n")
        assert done.err.startswith(warned)
        assert bool(done.err) == bool(warned)
    done = narrated("tail", "--redis", f"unix://{tmp_path}/none.sock")
    assert (done.code, len(done.err.splitlines())) == (1, 1)


def test_demo_prints_from_the_stream(narrated, clip, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("daemon.commands.options.load_chosen_captioner", lambda _: load_captioner(checkpoint))
    done = narrated("demo", clip, "--out", tmp_path / "demo")
    assert done.code == 0, done.err
    assert [line.split("  ", 1)[1] for line in done.out.splitlines()] == [
        "A box has appeared.  [room]",
        "The box is gone.  [room]",
    ]
    assert done.out.startswith("00:00:")
    assert "report.html" in done.err
    assert (tmp_path / "demo" / "report.html").is_file()
    assert "Ctrl-C" not in done.err  # nobody is at a terminal: no page
