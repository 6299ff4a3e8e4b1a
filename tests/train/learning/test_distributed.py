"""Two processes on the CPU, as torchrun starts them, learn what one learns."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from running_daemon import unused_port

from models.checkpoint import read_checkpoint
from train.learning.distributed import ALONE, ProcessGroup, own_device, started

WORKER = Path(__file__).with_name("distributed_worker.py")


def alone_in(folder: Path, data: Path, captioner: str, epochs: int) -> dict:
    """As `trained` by one process: this one."""
    spec = importlib.util.spec_from_file_location("distributed_worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    return dict(worker.learnt(data, folder / f"{captioner}-1.safetensors", captioner, epochs))


def trained(folder: Path, data: Path, processes: int, captioner: str, epochs: int) -> list[dict]:
    """Train in some processes, each told what `torchrun` tells it; what each of them saw.

    `torchrun` itself would be one more process that imports torch.
    """
    out = folder / f"{captioner}-{processes}.safetensors"
    told = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
    running = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(data), str(out), captioner, str(epochs)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **told, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(processes)
    ]
    try:
        said = [each.communicate(timeout=500)[1] for each in running]
    finally:
        for each in running:
            each.kill()
    assert [each.returncode for each in running] == [0] * processes, said
    return [json.loads(Path(f"{out}.{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.slow
@pytest.mark.usefixtures("toy_encoder")
def test_two_processes_learn_what_one_learns(sample_folder: Path, tmp_path: Path) -> None:
    captioner = "ddla"
    alone = alone_in(tmp_path, sample_folder, captioner, 2)
    first, second = trained(tmp_path, sample_folder, 2, captioner, 2)
    assert first["threads"] == second["threads"] == []  # one that lives at the interpreter's end may abort it
    assert first["curves"] == second["curves"]
    assert len(first["curves"]) == 2
    for ours, theirs in zip(first["curves"], alone["curves"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    assert first["cider"] == pytest.approx(alone["cider"], rel=1e-2)
    weights = [read_checkpoint(tmp_path / f"{captioner}-{n}.safetensors")[1] for n in (1, 2)]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=1e-3), name


def test_shares_of_a_batch() -> None:
    two = [ProcessGroup(rank, 2) for rank in range(2)]
    assert [list(g.share(range(5))) for g in two] == [[0, 2, 4], [1, 3]]
    assert [g.weight(5) for g in two] == [0.6, 0.4]
    assert [list(g.share([7])) for g in two] == [[7], [7]]
    assert sum(g.weight(1) for g in two) == 1
    assert list(ALONE.share(range(3))) == [0, 1, 2]
    assert ALONE.weight(3) == 1
    assert ALONE.summed(2.5) == 2.5


def test_what_torchrun_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert started() == ALONE
    assert own_device("cuda") == "cuda"
    for key, value in (("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(key, value)
    assert started() == ProcessGroup(3, 4)
    assert not started().first
    assert own_device("cuda") == "cuda:1"
    assert own_device("cpu") == "cpu"
