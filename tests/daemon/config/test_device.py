"""Which device is taken, and what is said of one that is not there."""

import sys
from pathlib import Path

import pytest
import torch
import typer

from daemon.commands.options import choose_captioner
from daemon.config import device
from daemon.config.device import DeviceError, choose_device


def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(device, "_DRIVERS", (Path("/dev/null"),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [*map(choose_device, ("auto", "cuda:1", "cpu"))] == ["cuda", "cuda:1", "cpu"]
    with pytest.raises(DeviceError, match="there is no cuda:2"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto") == "cpu"
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto") == "cpu"
    with pytest.raises(DeviceError, match=r"cuda needs torch: pip install 'narrated\[gpu\]'"):
        choose_device("cuda")


@pytest.mark.parametrize("name", ["gpu0", "mps", "cuda:", "cuda:-1", "CUDA"])
def test_what_is_no_device_is_told(name):
    with pytest.raises(typer.BadParameter, match="write auto, cpu, cuda or cuda:1"):
        choose_captioner(None, name)
