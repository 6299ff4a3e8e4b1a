from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from beside import beside
from small_osnet import published_osnet

from models.families import CLASSES, COCO
from train.checkpoints import TrainError
from train.grounded.appearance import graph_of
from train.grounded.detector_weights import plain_start, starting_detector


@pytest.fixture(scope="module")
def picodet() -> Path:
    return beside("data/models/picodet-s-onnx/picodet_s_416_coco.onnx")


@pytest.mark.footage
def test_answers_as_the_published_network_does(picodet):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(str(picodet), options, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).integers(0, 256, (1, 3, 416, 416), np.uint8)
    ours = starting_detector(picodet)
    assert ours.classes == len(CLASSES)
    with torch.inference_mode():
        answer = ours(torch.from_numpy(image))
    entry = ((torch.from_numpy(image) - ours.mean) / ours.deviation).float().numpy()
    out = [each[0] for each in theirs.run(None, {theirs.get_inputs()[0].name: entry})]
    label = answer.label[0].sigmoid().numpy()
    assert np.abs(label[:, : len(COCO)] - np.concatenate(out[:4])).max() < 1e-3
    assert np.abs(answer.edges[0].flatten(1).numpy() - np.concatenate(out[4:])).max() < 2e-2
    logit = answer.label[0, :, [COCO.index("car"), COCO.index("truck"), CLASSES.index("van")]]
    assert torch.allclose(logit[:, 2], logit[:, :2].mean(1) - 0.5, atol=1e-3)
    assert len(plain_start(picodet)["sha256"]) == 64  # type: ignore[index]


def test_chance_is_the_seed_s():
    one, two, other = (starting_detector(None, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["stem.0.weight"], other["stem.0.weight"])
    assert plain_start(None) is None


def test_what_cannot_be_started_from(tmp_path):
    from models import SHIPPED

    with pytest.raises(TrainError, match="no checkpoint at"):
        starting_detector(tmp_path / "none.safetensors")
    with pytest.raises(TrainError, match="cannot be read"):
        plain_start(tmp_path / "none.onnx")
    with pytest.raises(TrainError, match="holds no detector"):
        starting_detector(SHIPPED["ddla"])
    other = graph_of(published_osnet())
    for content, says in ((b"no network", "cannot be read"), (other, "is not PicoDet-S")):
        (tmp_path / "net.onnx").write_bytes(content)
        with pytest.raises(TrainError, match=says):
            starting_detector(tmp_path / "net.onnx")
