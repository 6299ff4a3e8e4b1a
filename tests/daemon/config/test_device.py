"""Which device is taken, and what is said of one that is not there."""

from __future__ import annotations

import pytest
import torch

from daemon.config.device import DeviceError, choose_device


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the choice would set torch's threads


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, as torch counts."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_a_gpu_is_taken_where_there_is_one(gpus: None) -> None:
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu0", "mps", "meta", "cuda:", "cuda:-1", "CUDA", ""])
def test_what_is_no_device_is_told(name: str) -> None:
    with pytest.raises(DeviceError, match="write auto, cpu, cuda or cuda:1"):
        choose_device(name)
