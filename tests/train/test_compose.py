import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from train.compose import ComposeOptions, Mix, compose
from train.grammar import NO_CHANGE
from train.samples import SampleError, load_samples
from train.scenes import FootageError

NAMES = (
    "intelprev_worker-zone-detection.mp4",
    "tfl_cromwell-rd-earls-court-rd.mp4",
    "intel_car-detection.mp4",
)


@pytest.fixture(scope="module")
def options(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> ComposeOptions:
    """Three real cameras, and the test scene that must not be used."""
    pytest.importorskip("onnxruntime", reason="the teacher needs the extra 'train'")
    weights = clips.parent / "weights" / "yolox_nano_416_coco.onnx"
    if not weights.is_file():
        pytest.skip("no teacher weights beside the checkout")
    folder = tmp_path_factory.mktemp("footage") / "clips"
    folder.mkdir()
    for name in (*NAMES, "opencv_vtest.avi"):
        (folder / name).symlink_to(clips / name)
    return ComposeOptions(
        clips=folder,
        teacher=weights,
        out=folder.parent / "composed",
        pairs=40,
        val_pairs=8,
        val_cameras=("intel_car-detection",),
        frames_per_camera=16,
    )


@pytest.mark.footage
@pytest.mark.slow
def test_composes_true_pairs_of_real_footage(options: ComposeOptions) -> None:
    seen: list[tuple[str, int, int]] = []
    report = compose(options, lambda *step: seen.append(step))
    train, val = load_samples(options.out, "train"), load_samples(options.out, "val")
    assert (len(train), len(val)) == (40, 8)
    assert {s.camera for s in val} == {"intel_car-detection"}
    assert {s.camera for s in train} <= {"intelprev_worker-zone-detection", "tfl_cromwell-rd-earls-court-rd"}
    assert report.pairs == {"train": 40, "val": 8}
    assert seen[-1] == ("val pairs", 8, 8)
    assert {"real", "pasted", "erased", "nuisance"} <= set(report.kinds)
    for sample in (*train, *val):
        before, after = cv2.imread(str(sample.before)), cv2.imread(str(sample.after))
        assert before.shape == after.shape
        assert before.shape[1] <= 640
        if sample.changes:
            assert set(sample.sentences) == {c.sentence for c in sample.changes}
            areas = [c.area for c in sample.changes]
            assert areas == sorted(areas, reverse=True)
            assert all(
                -1e-6 <= v <= 1 + 1e-6 for c in sample.changes for v in (c.box_after or c.box_before or ())
            )
        else:
            assert sample.sentences[0] in NO_CHANGE
    record = json.loads((options.out / "compose.json").read_text())
    assert set(record["clips"]) == set(NAMES)
    assert record["options"]["seed"] == 1
    assert "/" not in json.dumps(record["options"])

    again = replace(options, out=options.out.with_name("again"), workers=2)
    compose(again)
    for name in ("train.json", "val.json"):
        assert (again.out / name).read_text() == (options.out / name).read_text()
    assert np.array_equal(cv2.imread(str(again.out / "t000003_2.png")), cv2.imread(str(train[3].after)))
    with pytest.raises(SampleError, match="exists already"):
        compose(options)


@pytest.mark.footage
def test_footage_that_cannot_serve(options: ComposeOptions, tmp_path: Path) -> None:
    new = replace(options, out=tmp_path / "out")
    with pytest.raises(FootageError, match=r"no clips of garden .* there are intel_car-detection"):
        compose(replace(new, val_cameras=("garden",)))
    with pytest.raises(FootageError, match="needs a camera that is not trained on"):
        compose(replace(new, exclude=("*vtest*", "tfl*", "intelprev*")))
    assert list(tmp_path.iterdir()) == []


def test_options_without_meaning(tmp_path: Path) -> None:
    options = ComposeOptions(clips=tmp_path, teacher=tmp_path / "net.onnx", out=tmp_path / "out")
    with pytest.raises(FootageError, match="no clips"):
        compose(options)
    with pytest.raises(ValueError, match="variety"):
        compose(replace(options, variety="poetic"))
    with pytest.raises(ValueError, match="shares of the mix"):
        compose(replace(options, mix=Mix(0, 0, 0, 0, 0, 0)))
    with pytest.raises(ValueError, match="at least 1"):
        compose(replace(options, pairs=0))
