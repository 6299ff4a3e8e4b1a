"""The field's reference scorer, pycocoevalcap with its Java programs, where it can run.

It is the authority for published figures; METEOR exists nowhere else. SPICE needs jars that pycocoevalcap
would download by itself when asked: here they are the user's to supply, and nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from train.metrics.tokens import ptb_tokens

SPICE_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
"""What a user who wants SPICE puts into one folder; they are in stanford-corenlp-full-2015-12-09.zip."""

_METEOR = "meteor/meteor-1.5.jar"
_SPICE = "spice/spice-1.0.jar"
_LIMIT_S = 3600.0
_UTF8 = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")


class MissingScorersError(RuntimeError):
    """What a score needs is not installed; the message says what to do."""


def meteors(rows: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[float]:
    """METEOR 1.5 of several systems, 0..1, with the options of the field: English, normalised.

    All in one run, since the program takes seconds to read its paraphrases.

    Args:
        rows: per system one text per pair.
        references: at least one text per pair.

    Raises:
        MissingScorersError: Java or pycocoevalcap is missing, or the program fails.
    """
    jar = _part(_METEOR)
    options = ["-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    gold = [" ||| ".join(_words(text) for text in own) for own in references]
    with subprocess.Popen(  # noqa: S603 - the program of pycocoevalcap
        [_program(), *_UTF8, *options],
        cwd=jar.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        too_long = threading.Timer(_LIMIT_S, process.kill)
        too_long.start()
        try:
            return [_meteor(process, predicted, gold) for predicted in rows]
        finally:
            too_long.cancel()
            process.kill()
            if process.stdin:
                with suppress(OSError):  # of a dead program; or closing would hide why it died
                    process.stdin.close()


def _meteor(process: subprocess.Popen[bytes], predicted: Sequence[str], gold: Sequence[str]) -> float:
    counts = [
        _answer(process, f"SCORE ||| {own} ||| {_words(text)}")
        for text, own in zip(predicted, gold, strict=True)
    ]
    _answer(process, "EVAL ||| " + " ||| ".join(counts))  # the first pair's
    return float([_answer(process, None) for _ in counts][-1])  # the other pairs' and, last, the set's


def _answer(process: subprocess.Popen[bytes], line: str | None) -> str:
    """Write a line, if there is one, and read one."""
    if process.stdin is None or process.stdout is None:
        raise MissingScorersError("METEOR has no pipes")
    try:
        if line is not None:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
        answer = process.stdout.readline().decode(errors="replace").strip()
    except OSError as error:
        raise MissingScorersError(f"METEOR stopped: {error}") from error
    if not answer:
        raise MissingScorersError("METEOR stopped without an answer; does Java have 2 GB of memory?")
    return answer


def spice(predicted: Sequence[str], references: Sequence[Sequence[str]], jars: Path) -> float:
    """SPICE 1.0, mean over pairs, 0..1.

    Args:
        predicted: one text per pair.
        references: at least one text per pair.
        jars: folder that holds `SPICE_JARS`.

    Raises:
        MissingScorersError: Java, pycocoevalcap or a jar is missing, or the program fails.
    """
    missing = [name for name in SPICE_JARS if not (jars / name).is_file()]
    if missing:
        raise MissingScorersError(
            f"SPICE needs {' and '.join(missing)} in {jars}: fetch stanford-corenlp-full-2015-12-09.zip from "
            "Stanford's CoreNLP page, unpack it there, or leave out --spice-jars"
        )
    spice_jar = _part(_SPICE)
    entries = [
        {"image_id": k, "test": text, "refs": list(own)}
        for k, (text, own) in enumerate(zip(predicted, references, strict=True))
    ]
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.json", Path(folder) / "out.json"
        given.write_text(json.dumps(entries), encoding="utf-8")
        path = os.pathsep.join(
            [str(spice_jar), *(str(jars / name) for name in SPICE_JARS), str(spice_jar.parent / "lib" / "*")]
        )
        # Its cache opens java.lang by reflection, which newer Java forbids unless told.
        options = ["-Xmx8G", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", path]
        program = ["edu.anu.spice.SpiceScorer", str(given), "-out", str(found), "-subset", "-silent"]
        _java([*options, *program], "SPICE")
        try:
            scores = [float(each["scores"]["All"]["f"]) for each in json.loads(found.read_text("utf-8"))]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MissingScorersError(f"SPICE wrote no scores ({error}); are the jars whole?") from error
    return sum(scores) / len(scores) if scores else 0.0


def _words(text: str) -> str:
    return " ".join(ptb_tokens(text)).replace("|||", "")


def _part(name: str) -> Path:
    found = importlib.util.find_spec("pycocoevalcap")
    places = list(found.submodule_search_locations or ()) if found else []
    path = next((Path(place) / name for place in places if (Path(place) / name).is_file()), None)
    if path is None:
        raise MissingScorersError(
            "METEOR and SPICE need pycocoevalcap: pip install 'narrated[train]' (in a checkout: pip install "
            "'.[train]')"
        )
    return path


def _program() -> str:
    found = shutil.which("java")
    if found is None:
        raise MissingScorersError(
            "METEOR and SPICE need Java, for example Debian's openjdk-17-jre-headless; without it the other "
            "scores are printed all the same"
        )
    return found


def _java(arguments: Sequence[str], what: str) -> None:
    command = [_program(), *_UTF8, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - the programs of pycocoevalcap, with our files
            command, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingScorersError(f"{what} cannot be run: {error}") from error
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise MissingScorersError(f"{what} failed: {last}")
