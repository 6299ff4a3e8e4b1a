import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from models import SHIPPED, CheckpointError, load_captioner
from models.checkpoint import KEY, read_checkpoint, read_label
from models.papers.ddla import DDLA
from models.papers.vocabulary import Vocabulary


@pytest.fixture
def ddla(vocabulary, encoder) -> DDLA:
    return DDLA(vocabulary, encoder, features=6, words=4, hidden=8, attention=4)


@pytest.fixture
def path(ddla, tmp_path) -> Path:
    ddla.save(tmp_path / "ddla.safetensors")
    return tmp_path / "ddla.safetensors"


def altered(path: Path, *, without: str = "", **changes: object) -> Path:
    """The checkpoint with entries of its description changed, and without a weight."""
    with safe_open(path, framework="pt") as file:
        described = {**json.loads(file.metadata()[KEY]), **changes}
        weights = {name: file.get_tensor(name) for name in file.keys() if name != without}  # noqa: SIM118
    save_file(weights, path, metadata={KEY: json.dumps(described)})
    return path


def test_a_checkpoint_describes_itself(path, ddla):
    checkpoint = read_label(path)
    assert checkpoint.name == "ddla"
    assert checkpoint.arguments["hidden"] == 8
    assert (checkpoint.encoder, checkpoint.encoder_sha256) == ("colour", ddla.encoder.sha256)
    assert Vocabulary(checkpoint.words).words == ddla.vocabulary.words
    assert checkpoint.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not [p for p in path.parent.iterdir() if p != path], "left something beside it"


@pytest.mark.parametrize("shipped", SHIPPED.values(), ids=SHIPPED)
def test_what_ships_is_saved_again_as_it_was(shipped, tmp_path):
    """To the byte: weights, the recorded arguments, all of them, and the record."""
    again = tmp_path / "again.safetensors"
    load_captioner(shipped).save(again)
    assert read_label(again).arguments == read_label(shipped).arguments
    assert again.read_bytes() == shipped.read_bytes()


def test_the_encoder_stays_out(vocabulary, tmp_path):
    from models.encoders import EfficientNetLite0

    captioner = DDLA(vocabulary, EfficientNetLite0(), features=6, words=4, hidden=8, attention=4)
    captioner.save(tmp_path / "ddla.safetensors")
    assert not [name for name in read_checkpoint(tmp_path / "ddla.safetensors")[1] if "encoder" in name]
    assert (tmp_path / "ddla.safetensors").stat().st_size < 100_000
    loaded = load_captioner(tmp_path / "ddla.safetensors")  # loads the encoder by its name
    assert loaded.encoder.sha256 == captioner.encoder.sha256
    assert torch.equal(loaded.get_parameter("score.weight"), captioner.score.weight)


def test_a_failed_save_leaves_the_old_one(path, ddla, monkeypatch):
    old = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.checkpoint.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ddla.save(path)
    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]


def test_absent(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint at nosuch"):
        load_captioner("nosuch")
    with pytest.raises(CheckpointError, match="cuda:99 cannot be used"):
        load_captioner(device="cuda:99")
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*narrated-train"):
        load_captioner(tmp_path / "none.safetensors")
    with pytest.raises(CheckpointError, match="cannot read"):
        load_captioner(tmp_path)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_cut_short(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="cut short"):
        load_captioner(path)


def test_not_a_checkpoint(path):
    path.write_bytes(b"\x80\x02}q\x00." * 40)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_captioner(path)
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(CheckpointError, match="is not a checkpoint of narrated"):
        load_captioner(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 3}, "reads up to 2: update narrated"),
        ({"format": None}, "description is damaged"),
        ({"captioner": "oracle"}, "'oracle', this version knows grounded, ddla"),
        ({"encoder": "vgg"}, "description is damaged"),
        ({"arguments": {"depth": 3}}, "does not take its arguments"),
        ({"arguments": {"prior": "flat"}}, "does not take its arguments"),
        ({"arguments": {"hidden": 9}}, "weights do not fit"),
        ({"vocabulary": ["a"]}, "weights do not fit"),
        ({"vocabulary": ["a", "a"]}, "does not take its arguments"),
        ({"encoder": {"name": "colour", "sha256": "0" * 64}}, "trained on encoder colour"),
        ({"without": "query.weight"}, r"missing \['query.weight'\]"),
    ],
)
def test_what_does_not_fit(path, encoder, changes, message):
    with pytest.raises(CheckpointError, match=message):
        load_captioner(altered(path, **changes), encoder=encoder)


def test_an_encoder_that_is_not_known(path):
    with pytest.raises(CheckpointError, match="needs the encoder 'vgg'"):
        load_captioner(altered(path, encoder={"name": "vgg", "sha256": ""}))
