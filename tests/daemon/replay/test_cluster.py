"""Replays on a Ray cluster of several machines, played by several of its nodes on this one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pseudo_language import speaking, write_catalogue

from pipeline.journal.verification import verify

pytest.importorskip("ray", reason="needs the extra 'ray'")
pytestmark = pytest.mark.slow

WRITTEN = ("narrations.jsonl", "east.vtt", "north.vtt", "west.vtt", "report.html")


class Machines:
    """A cluster whose first machine takes no task, and another that takes one at a time."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self.address = self._cluster.address
        self._note(self._cluster.head_node)
        self.join()

    def join(self) -> None:
        self._worker = self._cluster.add_node(num_cpus=1)
        self._note(self._worker)

    def die(self) -> None:
        self._cluster.remove_node(self._worker, allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()
        for process in self._processes:
            process.wait(timeout=60)

    def _note(self, node: Any) -> None:
        self._processes += [each.process for of in node.all_processes.values() for each in of]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # as polite as the tests beside it, or it never ends
        machines = Machines()
        yield machines
        machines.close()


@pytest.fixture
def arguments(footage, checkpoint, tmp_path) -> Iterator[list[Any]]:
    """In another language, which the other machines must speak as well."""
    catalogue, config = write_catalogue(tmp_path / "xx.mo"), tmp_path / "narrated.yaml"
    config.write_text(f"version: 1\nlanguage: {catalogue}\ncameras: {{yard: {{url: y.mp4}}}}\n")
    with speaking(None):
        yield ["replay", footage, "--captioner-file", checkpoint, "--config", config]


def assert_same(out: Path, alone: Path) -> None:
    for name in WRITTEN:
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name
    for folder in ("journal", "evidence"):
        files = {p.relative_to(alone): p.read_bytes() for p in (alone / folder).rglob("*") if p.is_file()}
        found = {p.relative_to(out): p.read_bytes() for p in (out / folder).rglob("*") if p.is_file()}
        assert set(found) == set(files)
        assert all(found[name] == files[name] for name in files if name.suffix != ".writer")
    assert verify([out / "narrations.jsonl", out / "journal"]).ok
    assert not list(out.glob(".*"))
    assert not (out / "unfinished.json").exists()


def test_many_machines_write_what_one_writes_though_one_dies(narrated, arguments, machines, tmp_path):
    """It dies when the first camera is there; nobody else can narrate before another machine joins."""
    alone = narrated(*arguments, "--out", tmp_path / "alone")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "daemon.cli", *map(str, arguments), "--out", out]
    with (
        (tmp_path / "err").open("w") as err,
        subprocess.Popen(
            [*command, "--ray", machines.address], stdout=subprocess.PIPE, stderr=err, text=True
        ) as process,
    ):
        assert process.stdout is not None
        first = process.stdout.readline()
        machines.die()
        machines.join()
        shown = first + process.stdout.read()
    assert process.returncode == 0, (tmp_path / "err").read_text()
    assert sorted(shown.splitlines()) == sorted(alone.out.splitlines())
    assert alone.out.count("\n") == 6
    assert_same(out, tmp_path / "alone")


def test_what_no_cluster_can_do(narrated, arguments, tmp_path, monkeypatch):
    out = ["--out", tmp_path / "out"]
    missing = narrated(*arguments, *out, "--ray", "127.0.0.1:1")
    assert (missing.code, "no Ray cluster answers at 127.0.0.1:1" in missing.err) == (1, True)
    assert narrated(*arguments, "--ray", "local").code == 2  # it needs a folder
    monkeypatch.setitem(sys.modules, "ray", None)
    missing = narrated(*arguments, *out, "--ray", "local")
    assert (missing.code, "pip install 'narrated[ray]'" in missing.err) == (1, True)
