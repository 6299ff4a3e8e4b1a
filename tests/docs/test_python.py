"""The examples of docs/python.md run, and its table names what there is."""

import re
from importlib import import_module
from inspect import signature

import cv2
import numpy as np
import pytest
from doc_pages import ROOT, code_blocks, page, sections, table
from embedded_redis import EmbeddedServer
from encoded_footage import encode

WIDTH, HEIGHT = 640, 360


def sides() -> tuple[np.ndarray, np.ndarray]:
    """A car park without and with two cars, RGB: the halves of the README's picture."""
    picture = cv2.imread(str(ROOT / "docs" / "pictures" / "car_park.webp"))[..., ::-1]
    top, bottom, width, right = 32, 297, 472, 488
    empty, full = picture[top:bottom, :width], picture[top:bottom, right:]
    return cv2.resize(empty, (WIDTH, HEIGHT)), cv2.resize(full, (WIDTH, HEIGHT))


@pytest.fixture
def footage(tmp_path, monkeypatch) -> None:
    """The files that the examples read: the cars come after 6 s and have left after 11."""
    empty, full = sides()
    frames = (np.ascontiguousarray(full if 24 <= k < 44 else empty) for k in range(64))
    encode(tmp_path / "yard.mp4", "libx264", 0, frames, gop=12, rate=4)
    for name, image in (("before", empty), ("after", full)):
        assert cv2.imwrite(str(tmp_path / f"{name}.png"), image[..., ::-1])
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_examples_run(footage, capsys):
    examples = code_blocks(page("python.md"), "python")
    assert len(examples) == 5
    with EmbeddedServer() as server:
        names = {"redis_url": server.url}
        told = []
        for number, example in enumerate(examples):
            exec(compile(example, f"docs/python.md, example {number + 1}", "exec"), names)  # noqa: S102
            told.append(capsys.readouterr().out)
    video, events, stills, journal, stream = told
    assert len(video.splitlines()) == 2
    assert all("vehicle" in line for line in video.splitlines())
    assert stills.count(" appeared vehicle ") == 2
    assert {line.split()[1] for line in events.splitlines()} == {"vehicle"}  # drawn: the kind is left open
    assert [line[:2] for line in journal.splitlines()] == ["1 ", "2 "]
    assert [line[:5] for line in stream.splitlines()] == ["yard "] * 2


def test_the_table_names_what_there_is():
    for call, *_ in table(sections(page("python.md"))["From footage to narrations"]):
        module, name, arguments = re.fullmatch(r"([\w.]+)\.(\w+)\((.*)\)", call).groups()
        parameters = list(signature(getattr(import_module(module), name)).parameters)
        for argument in filter(None, arguments.split(", ")):
            assert argument.partition("=")[0] in parameters, call


def test_errors_are_where_the_page_says():
    import models
    import pipeline.journal
    import pipeline.publisher
    import pipeline.record
    import pipeline.sources

    text = sections(page("python.md"))["Errors"]
    places = (models, pipeline.journal, pipeline.publisher, pipeline.record, pipeline.sources)
    for name in re.findall(r"`(\w+Error)`", text):
        assert any(issubclass(getattr(place, name, int), Exception) for place in places), name
