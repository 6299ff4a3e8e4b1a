"""Configuration, records and checkpoints that somebody has damaged: clear errors, never a crash.

``NARRATED_FUZZ=20000`` tries so many inputs of each kind; the default is a sample of them.
"""

from __future__ import annotations

import json
import os
import string
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import models
from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.config.settings import Configuration
from models.captioner import Captioner, Sentence
from models.checkpoint import KEY, CheckpointError
from pipeline.changes import SceneEvent
from pipeline.journal import Journal, verify
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import Record, RecordError, hash_holds, read_record
from pipeline.sources import Clock

START = datetime(2026, 3, 1, tzinfo=UTC)
EXAMPLE = (Path(__file__).parents[3] / "configs" / "narrated.yaml").read_text()
TRIES = int(os.environ.get("NARRATED_FUZZ", "0"))
TOKENS = [
    *("null", "true", "-1", "1e999", ".nan", "auto", "5s", "-5s", "1/s", "0/s", "[]", "{}", "2026-01-01"),
    *(
        "&a [*a]",
        "*a",
        "!!bool",
        "!!timestamp x",
        "!!python/object:os.system {}",
        "${env:}",
        "${cred:../x}",
        "<<: {a: 1}",
        "1" * 400,
    ),
    *("\n", "\u2028", "\x00", "\t", ": ", "- ", "'", '"', "99999999999999999999s", "rtsp://a:b@c/d", "0x10"),
    "[[0,0],[1,1],[2,0]]",
]
RAW_TOKENS = [token.encode() for token in TOKENS]


def fuzz(tries: int) -> Callable[..., Any]:
    return settings(
        max_examples=TRIES or tries,
        deadline=None,
        derandomize=not TRIES,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


@st.composite
def edited(draw: st.DrawFn, whole: bytes, tokens: list[bytes]) -> bytes:
    """The bytes with up to six places cut, overwritten, doubled, or with a token or noise put in."""
    content = whole
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(0, 40)))
        put = draw(st.sampled_from([*tokens, b"", content[begin:end] * 2]) | st.binary(max_size=12))
        content = content[:begin] + put + content[end:]
    return content


def keys_of(model: type[Any]) -> list[str]:
    return list(model.model_fields)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(string.printable, max_size=12)
    | st.sampled_from(TOKENS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*keys_of(Configuration), "url", "zones", "masks", "rtsp", "pairs"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@fuzz(150)
@given(
    edited(EXAMPLE.encode(), RAW_TOKENS).map(lambda raw: raw.decode(errors="replace")) | st.text(max_size=200)
)
def test_a_damaged_configuration(text: str) -> None:
    check_configuration(text)


@fuzz(80)
@given(st.dictionaries(st.sampled_from(keys_of(Configuration)), VALUES))
def test_a_configuration_of_odd_values(values: dict[str, Any]) -> None:
    check_configuration(yaml.safe_dump({"version": 1, "cameras": {"a": {"url": "b"}}} | values))


def check_configuration(text: str) -> None:
    try:
        configuration = parse_configuration(text, "fuzz.yaml")
    except ConfigurationError as error:
        problems = error.problems
    else:
        assert configuration.cameras
        return
    assert problems
    assert all(problem.startswith("fuzz.yaml") and "\n" not in problem for problem in problems)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of two records."""
    narration = Narration(
        id="yard-1",
        camera="yard",
        before=FrameStamp(START, 0, "a" * 64),
        after=FrameStamp(START + timedelta(seconds=1), 1, "b" * 64),
        clock=Clock.FILE,
        event=SceneEvent.NONE,
        sentences=(Sentence("A car has appeared.", "appeared", "car", None, 0.7, 0.8),),
        l2=12.3,
        model=ModelStamp("ddla", "c" * 64),
        settings_sha256="d" * 64,
    )
    with Journal(tmp_path_factory.mktemp("journal"), "yard", fsync=False) as written:
        written.append(narration)
        written.append(narration)
        return written.path


@fuzz(150)
@given(data=st.data())
def test_a_damaged_record(journal: Path, data: st.DataObject) -> None:
    whole = journal.read_bytes()
    line = whole.splitlines()[0]
    damaged = data.draw(edited(line, RAW_TOKENS) | st.binary(max_size=200))
    with suppress(RecordError):
        assert isinstance(read_record(damaged), Record)
    if damaged != line:
        assert not hash_holds(damaged)


@fuzz(60)
@given(data=st.data())
def test_a_damaged_journal(
    journal: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = journal.read_bytes()
    damaged = data.draw(edited(whole, RAW_TOKENS))
    copy = tmp_path_factory.getbasetemp() / "yard.jsonl"
    copy.write_bytes(damaged)
    found = verify([copy])
    kept = whole.startswith(damaged) and damaged.endswith(b"\n")  # whole lines may be missing at the end
    assert found.ok == (kept or damaged == b""), found.problems
    assert all(problem.reason for problem in found.problems)


def reassembled(description: bytes, header: dict[str, Any], tensors: bytes) -> bytes:
    """A safetensors file whose lengths are right, with another description."""
    metadata = {KEY: description.decode(errors="replace")}
    text = json.dumps({**header, "__metadata__": metadata}).encode()
    return struct.pack("<Q", len(text)) + text + tensors


@fuzz(60)
@given(data=st.data())
def test_a_damaged_checkpoint(
    checkpoint: Path, captioner: Captioner, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = checkpoint.read_bytes()
    (length,) = struct.unpack_from("<Q", whole)
    header, tensors = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    description = header.pop("__metadata__")[KEY].encode()
    damaged = data.draw(
        edited(description, RAW_TOKENS).map(lambda text: reassembled(text, header, tensors))
        | edited(whole[: 8 + length], RAW_TOKENS).map(lambda start: start + tensors)
        | st.integers(0, len(whole) - 1).map(lambda size: whole[:size])
    )
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(damaged)
    with suppress(CheckpointError):
        assert models.load_captioner(path, encoder=captioner.encoder).name == "ddla"
