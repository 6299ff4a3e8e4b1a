"""Configuration, records and checkpoints that somebody has damaged: clear errors, never a crash.

``NARRATED_FUZZ=20000`` tries so many inputs of each kind; the default is a sample of them.
"""

import copy
import json
import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrations import narration

import models
from daemon.config.configuration import ConfigurationError, parse_configuration
from models.checkpoint import KEY, CheckpointError
from pipeline.record import ChainEnd, Record, build_record, read_record
from pipeline.record_format import RecordError, hash_holds

EXAMPLE = (Path(__file__).parents[3] / "configs" / "narrated.yaml").read_text()
TRIES = int(os.environ.get("NARRATED_FUZZ", "0"))
TOKENS = [
    token.encode()
    for token in (
        *("null", "true", "-1", "1e999", ".nan", "auto", "5s", "-5s", "1/s", "0/s", "[]", "{}", "2026-01-01"),
        *("&a [*a]", "*a", "!!bool", "!!timestamp x", "!!python/object:os.system {}", "<<: {a: 1}", "0x10"),
        *("\n", "\u2028", "\x00", "\t", ": ", "- ", "'", '"', "99999999999999999999s", "1" * 400),
        *("${env:}", "${cred:../x}", "rtsp://a:b@c/d", "[[0,0],[1,1],[2,0]]"),
    )
]


def fuzz(tries: int) -> Callable[..., Any]:
    return settings(
        max_examples=TRIES or tries,
        deadline=None,
        derandomize=not TRIES,
        suppress_health_check=list(HealthCheck),
        database=None,
    )


@st.composite
def edited(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with up to six places cut, overwritten, doubled, or with a token or noise put in."""
    content = whole
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(0, 40)))
        put = draw(st.sampled_from([*TOKENS, b"", content[begin:end] * 2]) | st.binary(max_size=12))
        content = content[:begin] + put + content[end:]
    return content


@fuzz(40)
@given(edited(EXAMPLE.encode()).map(lambda raw: raw.decode(errors="replace")) | st.text(max_size=200))
def test_a_damaged_configuration(text):
    problems = ["fuzz.yaml"]
    try:
        assert parse_configuration(text, "fuzz.yaml").cameras
    except ConfigurationError as error:
        problems = error.problems
    assert problems
    assert all(problem.startswith("fuzz.yaml") and "\n" not in problem for problem in problems)


ODD = [
    *(None, True, -1, 0, 2.5, float("inf"), float("nan"), 10**400, "", "x", "-5s", "5 parsecs", "http://"),
    *("1/fortnight", "\u2028\x00", [], [[]], [1, "a"], {}, {"a": 1}, {1: 2}, [[0, 0], [640, 0], [640, 480]]),
]


def key_paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [deeper for key, value in items for deeper in [(*path, key), *key_paths(value, (*path, key))]]


def test_odd_values_of_every_key_are_taken_or_refused_in_the_words_of_yaml():
    """Every eighth value for each key; all of them with ``NARRATED_FUZZ``."""
    corners = [[0.4, 0.2], [0.6, 0.2], [0.65, 0.55]]
    example = yaml.safe_load(EXAMPLE)
    example["cameras"]["front_door"] |= {"zones": [{"name": "in the lot", "polygon": corners}]}
    example["cameras"]["front_door"] |= {"masks": {"x": corners}}
    example["forward"] |= {
        "mqtt": {"home": {"url": "mqtt://10.0.0.2"}},
        "apprise": {"phone": {"url": "json://10.0.0.2", "filter": {"object": "person"}}},
    }
    assert parse_configuration(yaml.safe_dump(example))
    small = {"version": 1, "cameras": {"a": {"url": "x"}}}  # the rest of the file takes time alone
    for n, path in enumerate(key_paths(example)):
        for odd in ODD if TRIES else ODD[n % 8 :: 8]:
            changed = small | {path[0]: copy.deepcopy(example[path[0]])}
            reduce(getitem, path[:-1], changed)[path[-1]] = odd
            said = ""
            try:
                parse_configuration(yaml.safe_dump(changed), "odd.yaml")
            except ConfigurationError as error:
                said = str(error)
            assert not re.search("Input|Unable|instance of|valid |pydantic|class '", said), (path, odd)


@fuzz(80)
@given(data=st.data())
def test_a_damaged_record(data):
    line = build_record(narration(0), ChainEnd()).line()
    damaged = data.draw(edited(line) | st.binary(max_size=200))
    with suppress(RecordError):
        assert isinstance(read_record(damaged), Record)
    if damaged != line:
        assert not hash_holds(damaged)


@fuzz(20)
@given(data=st.data())
def test_a_damaged_checkpoint(checkpoint, captioner, tmp_path_factory, data):
    whole = checkpoint.read_bytes()
    (length,) = struct.unpack_from("<Q", whole)
    header, tensors = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    description = header.pop("__metadata__")[KEY].encode()

    def described(description: bytes) -> bytes:
        """A file whose lengths are right, with another description."""
        metadata = {KEY: description.decode(errors="replace")}
        text = json.dumps({**header, "__metadata__": metadata}).encode()
        return struct.pack("<Q", len(text)) + text + tensors

    damaged = data.draw(
        edited(description).map(described)
        | edited(whole[: 8 + length]).map(lambda start: start + tensors)
        | st.integers(0, len(whole) - 1).map(lambda size: whole[:size])
    )
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(damaged)
    with suppress(CheckpointError):
        assert models.load_captioner(path, encoder=captioner.encoder).name == "ddla"
