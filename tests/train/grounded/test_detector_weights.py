"""The detector's weights: where they start from, and graphs that give torch's digits without torch."""

from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest
import torch
from beside import beside
from onnx import helper
from rectangles import lively
from small_osnet import published_osnet
from torch import Tensor

from models import load_captioner
from models.families import CLASSES, COCO
from models.grounded.detector import Answer, Detector, TorchDetector, detector_of
from models.grounded.grounded import Grounded
from models.grounded.inference import OnnxDetector, boxes
from models.grounded.observations import EVIDENCE, FEATURES
from pipeline.changes.difference import resize
from train.checkpoints import TrainError
from train.grounded.appearance import graph_of
from train.grounded.change_classifier import Network, classifier_of
from train.grounded.detector_weights import export_onnx, plain_start, starting_detector
from train.grounded.feature_embedding import EmbeddingNetwork, embedding_of


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


NEAR = 1e-4


@pytest.fixture(scope="module")
def detector() -> Detector:
    torch.manual_seed(1)
    return lively(Detector(len(CLASSES))).eval()


@pytest.fixture(scope="module")
def graph(detector) -> bytes:
    return export_onnx(detector)


def pictures(count: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (count, height, width, 3), np.uint8)


def in_torch(detector: Detector, picture: np.ndarray) -> Answer:
    with torch.inference_mode():
        found: Answer = detector(torch.from_numpy(picture).permute(2, 0, 1)[None])
    return found


@pytest.mark.parametrize(("height", "width"), [(96, 160), (32, 224)])
def test_the_graph_answers_as_the_module_does(detector, graph, height, width):
    [picture] = pictures(1, height, width)
    ours, own = OnnxDetector(graph).answers(picture), in_torch(detector, picture)
    classes = len(CLASSES)
    np.testing.assert_allclose(ours.cells[:, :classes], own.label[0], rtol=1e-3, atol=NEAR)
    np.testing.assert_allclose(ours.cells[:, classes:], own.edges[0].flatten(1), rtol=1e-3, atol=NEAR)
    for ours_map, own_map in zip(ours.maps, own.maps, strict=True):
        np.testing.assert_allclose(ours_map, own_map[0], rtol=1e-3, atol=NEAR)
    edge = torch.tensor([width, height] * 2)
    corners = (own.boxes()[0] / edge).clamp(0, 1)
    found = boxes(ours, (height, width), np.arange(len(corners)))
    np.testing.assert_allclose(found[:, :2], corners[:, :2], atol=NEAR)
    np.testing.assert_allclose(found[:, :2] + found[:, 2:], corners[:, 2:], atol=NEAR)


def test_threads_change_no_digit(graph):
    [picture] = pictures(1, 96, 160)
    alone, *others = (OnnxDetector(graph, threads).answers(picture) for threads in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(other.cells, alone.cells)


def test_the_module_is_made_again_from_its_graph(detector, graph):
    again = detector_of(graph)
    assert export_onnx(again) == graph
    for name, value in detector.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    empty = helper.make_model(helper.make_graph([], "empty", [], []))
    with pytest.raises(RuntimeError, match="Missing key"):
        detector_of(empty.SerializeToString())


@pytest.mark.footage
def test_the_shipped_detector_finds_what_torch_finds(clips):
    capture = cv2.VideoCapture(str(clips / "opencv_vtest.avi"))
    image = resize(cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB), (416, 544))
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    other = pictures(1, 416, 544)[0]
    slow = TorchDetector(detector_of(captioner.graphs["detector"]), "cpu")
    for ours, own in zip(captioner.detect([image, other]), slow.detect([image, other]), strict=True):
        assert len(ours) == len(own)
        for part in ("box", "score", "label", "feature"):
            np.testing.assert_allclose(getattr(ours, part), getattr(own, part), atol=NEAR)
    assert len(captioner.detect([image])[0]) > 5


class Small(Detector):
    """One that has room for so many pictures at once."""

    room = 2

    def outputs(self, pictures: Tensor) -> tuple[Tensor, ...]:
        self.asked.append(len(pictures))
        if len(pictures) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().outputs(pictures)


def test_pictures_that_do_not_fit_the_memory_are_looked_at_in_halves(detector):
    net = Small(len(CLASSES))
    net.load_state_dict(detector.state_dict())
    net.asked = []
    together, some = TorchDetector(net.eval(), "cpu"), pictures(5, 64, 96)
    found = together.detect([*some, pictures(1, 32, 64)[0]])
    assert net.asked == [5, 3, 2, 1, 2, 1]
    for each, alone in zip(found, TorchDetector(detector, "cpu").detect(list(some)), strict=False):
        np.testing.assert_allclose(each.box, alone.box, atol=NEAR)
    net.room = 0
    with pytest.raises(torch.OutOfMemoryError):
        together.detect(list(some))


def test_the_classifier_and_the_embedding_give_torch_s_digits():
    torch.manual_seed(3)
    networks, embeddings = [Network() for _ in range(3)], [EmbeddingNetwork().eval() for _ in range(3)]
    shown, feature = torch.randn(40, len(EVIDENCE)) * 9, torch.randn(40, FEATURES)
    for network in networks:
        network.fit_scaling(shown)
    with torch.inference_mode():
        change = torch.stack([network(shown) for network in networks]).mean(0).sigmoid()
        vectors = torch.cat([embedding(feature) for embedding in embeddings], 1) / 3**0.5
    np.testing.assert_allclose(classifier_of(networks)(shown.numpy()), change, atol=NEAR)
    found = embedding_of(embeddings)(feature.numpy())
    np.testing.assert_allclose(found, vectors, atol=NEAR)
    np.testing.assert_array_equal(found[7:8], embedding_of(embeddings)(feature[7:8].numpy()))
