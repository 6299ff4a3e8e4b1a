from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from beside import beside
from small_osnet import published_osnet

from models import load_captioner
from models.embedding import AppearanceEmbedding
from train.checkpoints import TrainError
from train.grounded import appearance as module
from train.grounded.appearance import (
    EmbeddingOptions,
    OSNet,
    Tracklet,
    add_embedding,
    graph_of,
    starting_osnet,
    train_embedding,
)

OPTIONS = EmbeddingOptions(steps=20, tracks=3, crops=2)


@pytest.fixture(scope="module")
def reid() -> Path:
    return beside("data/models/reid-0248/person-reidentification-retail-0248.onnx")


def tracklets() -> list[Tracklet]:
    """Three people of two clips, whose vectors have little of their own and much in common."""
    rng = np.random.default_rng(4)
    common, own = rng.normal(size=256), rng.normal(size=(3, 1, 256))
    vectors = torch.from_numpy(2 * common + own + rng.normal(size=(3, 4, 256))).float()
    vectors = torch.nn.functional.normalize(vectors, dim=-1)
    clips = ("a/1", "a/1", "b/1")
    return [Tracklet(clip, str(k), "person", 0.0, 3.0, vectors[k]) for k, clip in enumerate(clips)]


@pytest.mark.footage
def test_the_graph_answers_as_the_published_network_does(reid):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(str(reid), options, providers=["CPUExecutionProvider"])
    crops = np.random.default_rng(1).integers(0, 256, (3, 256, 128, 3), np.uint8)
    expected = [theirs.run(None, {"inputs:0": x[None, ..., ::-1].astype(np.float32)})[0][0] for x in crops]
    expected = [vector / np.linalg.norm(vector) for vector in expected]
    ours = AppearanceEmbedding(graph_of(starting_osnet(reid))).embed(list(crops))
    assert np.abs(ours - np.stack(expected)).max() < 1e-5


def test_what_cannot_be_started_from(tmp_path):
    other = tmp_path / "other.onnx"
    graph = graph_of(published_osnet())  # of a batch, with the layer behind it
    for content, words in ((b"junk", "cannot be read as ONNX"), (graph, "is not person-")):
        other.write_bytes(content)
        with pytest.raises(TrainError, match=words):
            starting_osnet(other)


def test_the_graph_has_the_trained_layer():
    net = published_osnet()
    crops = list(np.random.default_rng(2).integers(0, 256, (3, 256, 128, 3), np.uint8))
    published = torch.from_numpy(AppearanceEmbedding(graph_of(net)).embed(crops))
    net.weight = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))
    turned = torch.nn.functional.normalize(published @ net.weight.T + net.bias)
    found = AppearanceEmbedding(graph_of(net)).embed(crops)
    assert np.abs(found - turned.numpy()).max() < 1e-5


def test_training_brings_one_object_together_and_keeps_the_network():
    net, some = published_osnet(), tracklets()
    train_embedding(net, some, OPTIONS)
    assert net.published == published_osnet().published
    again = published_osnet()
    train_embedding(again, some, OPTIONS)
    assert torch.equal(again.weight, net.weight)
    assert _contrast(net) > _contrast(published_osnet()) + 0.1


def _contrast(net: OSNet) -> float:
    """How much closer two views of one person are than two of different ones."""
    vectors = torch.cat([each.vectors for each in tracklets()])
    out = torch.nn.functional.normalize(vectors @ net.weight.T + net.bias)
    cosine = (out @ out.T).numpy()
    same = np.arange(12)[:, None] // 4 == np.arange(12) // 4
    return float(cosine[same].mean() - cosine[~same].mean())


@pytest.mark.footage
@pytest.mark.slow
def test_a_checkpoint_is_given_an_embedding(reid, tmp_path, monkeypatch):
    for camera in ("ny_sidewalk", "piccadilly_pavement_night", "atrium_people"):
        (tmp_path / "footage" / camera).mkdir(parents=True)
        link = tmp_path / "footage" / camera / "people.mp4"
        link.symlink_to(next(beside(f"data/cameras/train/{camera}").glob("*.mp4")))
    monkeypatch.setattr(module, "_CLIP_S", 1.2)
    out, lines = tmp_path / "out.safetensors", list[str]()
    add_embedding(tmp_path / "footage", out, reid, OPTIONS, val_cameras=("atrium_people",), note=lines.append)
    assert "are followed in 2 cameras" in lines[0]
    captioner = load_captioner(out)
    made = captioner.record["embedding"]
    assert [each["name"] for each in made["cameras"]] == ["ny_sidewalk", "piccadilly_pavement_night"]
    assert made["start"]["file"] == reid.name
    assert AppearanceEmbedding(captioner.graphs["embedding"]).size == 256
    assert captioner.graphs != load_captioner().graphs
