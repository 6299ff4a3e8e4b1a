"""Footage behind URLs: in an object store of fsspec's, on a web server, in a folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon.replay.inputs import find_footage
from pipeline.sources import SourceError

fsspec = pytest.importorskip("fsspec", reason="needs the extra 'remote'")
Run = Callable[..., Any]


@pytest.fixture
def store(clip: Path, other_clip: Path) -> Iterator[Any]:
    """An object store with two cameras."""
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/hall.mp4": clip.read_bytes(), "/bucket/gate.mp4": other_clip.read_bytes()})
    memory.pipe("/bucket/notes.txt", b"no footage")
    yield memory
    memory.rm("/bucket", recursive=True)


@pytest.fixture
def folder(clip: Path, other_clip: Path, tmp_path: Path) -> Path:
    """The same cameras here."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    (folder / "hall.mp4").symlink_to(clip)
    (folder / "gate.mp4").symlink_to(other_clip)
    return folder


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    handler.func.log_message = lambda *_: None  # type: ignore[method-assign]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("store")
def test_the_record_is_that_of_the_files(
    narrated: Run, folder: Path, web: str, checkpoint: Path, tmp_path: Path
) -> None:
    places = {
        "here": [folder],
        "store": ["memory://bucket"],
        "web": [f"{web}/gate.mp4", f"{web}/hall.mp4"],
        "file": [f"file://{folder}"],
    }
    every = list[dict[str, bytes]]()
    for name, given in places.items():
        done = narrated("replay", *given, "--captioner-file", checkpoint, "--out", tmp_path / name)
        assert done.code == 0, done.err
        journals = (tmp_path / name / "journal").glob("*.jsonl")
        every.append({each.name: each.read_bytes() for each in journals})
        assert set(every[-1]) == {"hall.jsonl", "gate.jsonl"}
        assert every[-1] == every[0], name
    assert "bucket/hall.mp4" in (tmp_path / "store" / "report.html").read_text()


def test_what_is_found(store: Any) -> None:
    def paths(*places: str) -> list[str]:
        return [str(path) for each in find_footage(places) for path in each.paths]

    assert paths("memory://bucket") == ["bucket/gate.mp4", "bucket/hall.mp4"]
    assert paths("memory://bucket/h*.mp4", "memory://bucket/hall.mp4") == ["bucket/hall.mp4"]
    store.pipe("/bucket/street/VIRAT_S_010204_05_000856_000890.mp4", b"")
    assert find_footage(["memory://bucket/street"])[0].camera == "VIRAT_S_0102"


def test_a_file_is_fetched_once_and_gone_afterwards(store: Any, tmp_path: Path) -> None:
    (hall,) = find_footage(["memory://bucket/hall.mp4"])
    (here,) = hall.here(tmp_path)
    assert here.read_bytes() == store.cat("/bucket/hall.mp4")
    before = here.stat().st_mtime_ns
    assert hall.here(tmp_path) == (here,)
    assert here.stat().st_mtime_ns == before


def test_a_file_that_has_changed_is_another_replay(
    narrated: Run, store: Any, checkpoint: Path, tmp_path: Path
) -> None:
    arguments = ["replay", "memory://bucket", "--captioner-file", checkpoint, "--out", tmp_path / "out"]
    store.pipe("/bucket/hall.mp4", b"no video")
    broken = narrated(*arguments)
    assert broken.code == 3
    assert "bucket/hall.mp4: cannot be read as video" in broken.err
    assert "/hall/bucket" not in broken.err  # nothing is told of where it was put here
    (tmp_path / "out" / "unfinished.json").write_text('{"of": "another", "finished": {}}')
    other = narrated(*arguments, "--resume")
    assert "of other footage" in other.err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("memory://bucket/absent.mp4", r"cannot be fetched \(no such file\)"),
        ("memory://bucket/*.avi", "there is no file"),
        ("nosuch://me:hunter2@host/a.mp4", r"\*\*\*@host/a.mp4: cannot be fetched \(Protocol not known"),
        ("rtsp://me:hunter2@host/a", "a camera belongs in the configuration"),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_cannot_be_had(place: str, words: str) -> None:
    with pytest.raises(SourceError, match=words) as told:
        find_footage([place])
    assert "hunter2" not in str(told.value)
