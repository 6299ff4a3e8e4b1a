"""Messages: pictures and what is seen in them travel to the last bit, and nothing else is let in."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import daemon.workers
from daemon.workers.messages import (
    Ask,
    MessageError,
    Reply,
    WorkerCard,
    decoded,
    encoded,
    packed,
    parsed,
    unpacked,
)
from daemon.workers.sights import Sightings, UnseenError, digest
from models.detections import Detections
from models.families import OBJECTS

ASK = Ask(id="e:1", edge="e", camera="yard", checkpoint="a" * 64, pictures=2)


def noise(height: int, width: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (3, height, width), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )


def seen(count: int) -> Detections:
    return Detections(
        torch.rand(count, 4), torch.rand(count), torch.rand(count, len(OBJECTS)), torch.rand(count, 96)
    )


@pytest.mark.parametrize("size", [(32, 64), (352, 640)])
def test_a_picture_travels_without_loss(size: tuple[int, int]) -> None:
    assert torch.equal(decoded(encoded(noise(*size))), noise(*size))


def test_what_is_seen_travels_to_the_last_bit() -> None:
    sent = [seen(5), seen(0)]
    for was, now in zip(sent, unpacked(packed(sent), 2), strict=True):
        for part in ("box", "score", "label", "feature"):
            assert torch.equal(getattr(was, part), getattr(now, part))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"version": 2}, "version"),
        ({"more": 1}, "more"),
        ({"checkpoint": "a"}, "checkpoint"),
        ({"pictures": 0}, "pictures"),
        ({"pictures": 10_000}, "pictures"),
        ({"edge": "narrated:{yard}:changes"}, "edge"),
    ],
)
def test_what_is_no_message_of_this_version_is_refused(change: dict[str, object], where: str) -> None:
    assert parsed(Ask, ASK.model_dump_json().encode()) == ASK
    with pytest.raises(MessageError, match=f"^Ask, {where}: "):
        parsed(Ask, json.dumps({**ASK.model_dump(), **change}).encode())


@pytest.mark.parametrize(
    "wrong",
    [
        Detections(torch.zeros(2, 4), torch.zeros(1), torch.zeros(2, len(OBJECTS)), torch.zeros(2, 96)),
        Detections(torch.zeros(2, 3), torch.zeros(2), torch.zeros(2, len(OBJECTS)), torch.zeros(2, 96)),
        Detections(torch.zeros(2, 4), torch.zeros(2), torch.zeros(2, 1), torch.zeros(2, 96)),
    ],
)
def test_what_is_seen_must_fit_together(wrong: Detections) -> None:
    with pytest.raises(MessageError, match="has shapes"):
        unpacked(packed([wrong]), 1)
    with pytest.raises(MessageError, match="cannot be read"):
        unpacked(packed([seen(1)]), 2)


@given(st.binary(max_size=64))
def test_no_bytes_do_harm(data: bytes) -> None:
    readers: list[Callable[[], object]] = [
        lambda: decoded(data),
        lambda: unpacked(data, 1),
        lambda: parsed(Reply, data),
        lambda: parsed(WorkerCard, data),
    ]
    for read in readers:
        with suppress(MessageError):
            read()
            raise AssertionError(data)


def test_sightings_are_kept_while_somebody_needs_them() -> None:
    here = list[int]()
    sightings = Sightings(lambda pictures: here.append(len(pictures)) or [seen(1) for _ in pictures])
    one, other = noise(32, 32), noise(32, 64)
    names = [digest(one), digest(other)]
    sightings.need([*names, names[0]])
    sightings.learn([*names, "unknown"], [seen(3), "it ended three workers", seen(1)])
    assert len(sightings) == 2
    assert len(sightings([one])[0]) == 3
    with pytest.raises(UnseenError, match="no worker can look at a picture: it ended three workers"):
        sightings([one, other])
    sightings.release(names)
    assert (sightings.known(names[0]), sightings.known(names[1])) == (True, False)
    sightings.release(names[:1])
    assert not len(sightings)
    assert len(sightings([one])[0]) == 1
    assert (here, sightings.looked_here) == ([1], 1)


def test_equal_bytes_of_another_size_are_another_picture() -> None:
    assert digest(torch.zeros(3, 32, 64, dtype=torch.uint8)) != digest(
        torch.zeros(3, 64, 32, dtype=torch.uint8)
    )


def test_no_wall_clock_is_asked() -> None:
    """Clocks of edges, workers and server may differ by hours."""
    for path in Path(daemon.workers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "datetime", path
                assert node.module != "time" or [name.name for name in node.names] == ["monotonic"], path
            if isinstance(node, ast.Import):
                assert not {name.name for name in node.names} & {"time", "datetime"}, path
