import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_footage import begun

from train.compose.composition import ComposeOptions, compose, label_options
from train.compose.grammar import NO_CHANGE
from train.footage.cameras import FootageError
from train.footage.frames import read_frames
from train.footage.labels import label_frames
from train.footage.recipe import Recipe
from train.footage.teachers import TeacherFile
from train.samples import Sample, SampleError, load_samples

NAMES = (
    "intelprev_worker-zone-detection.mp4",
    "tfl_cromwell-rd-earls-court-rd.mp4",
    "intel_car-detection.mp4",
)


@pytest.fixture(scope="module")
def options(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> ComposeOptions:
    """Three real cameras, and the test scene that must not be used."""
    weights = clips.parent / "weights" / "yolox_nano_416_coco.onnx"
    if not weights.is_file():
        pytest.skip("no teacher weights beside the checkout")
    folder = tmp_path_factory.mktemp("footage") / "clips"
    folder.mkdir()
    for name in NAMES:
        begun(clips / name, folder / name)
    (folder / "opencv_vtest.avi").symlink_to(clips / "opencv_vtest.avi")
    return ComposeOptions(
        clips=folder,
        teachers=(TeacherFile(weights),),
        out=folder.parent / "composed",
        pairs=24,
        val_pairs=4,
        val_cameras=("intel_car-detection",),
        recipe=Recipe(frames_per_camera=8),
    )


def check_objects(sample: Sample, cameras: set[str]) -> None:
    """Objects lie inside, changes name theirs, identities are of one or two sides, sources are known."""
    assert sample.camera in sample.sources
    assert set(sample.sources) <= cameras
    for o in sample.objects:
        assert min(o.box) >= 0
        assert max(o.box[0] + o.box[2], o.box[1] + o.box[3]) <= 1 + 1e-6
    for change in sample.changes:
        members = [sample.objects[k] for k in change.members]
        sides = {o.side for o in members}
        assert sides == ({"before"} if change.box_before else set()) | (
            {"after"} if change.box_after else set()
        )
        assert len(members) == change.count * len(sides)
        if change.type == "replaced":
            assert len({o.identity for o in members}) == 2
    for side in ("before", "after"):
        known = [o.identity for o in sample.objects if o.side == side and o.identity >= 0]
        assert len(known) == len(set(known))


@pytest.mark.footage
@pytest.mark.slow
def test_composes_true_pairs_of_real_footage(options: ComposeOptions) -> None:
    seen: list[tuple[str, int, int]] = []
    report = compose(options, lambda *step: seen.append(step))
    train, val = load_samples(options.out, "train"), load_samples(options.out, "val")
    assert (len(train), len(val)) == (24, 4)
    assert {s.camera for s in val} == {"intel_car-detection"}
    assert {s.camera for s in train} <= {"intelprev_worker-zone-detection", "tfl_cromwell-rd-earls-court-rd"}
    assert report.pairs == {"train": 24, "val": 4}
    assert seen[-1] == ("val pairs", 4, 4)
    assert {"real", "pasted", "erased", "nuisance"} <= set(report.kinds)
    for sample in (*train, *val):
        check_objects(sample, {"intel_car-detection", *report.train_cameras})
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
    assert all(s.objects for s in train if s.kind == "pasted")
    assert any(len(s.sources) > 1 for s in train)
    assert report.instances == dict(
        Counter(o.label for s in (*train, *val) for o in s.objects if o.sure).most_common()
    )
    record = json.loads((options.out / "compose.json").read_text())
    assert set(record["clips"]) == set(NAMES)
    assert record["options"]["seed"] == 1
    assert [len(teacher["sha256"]) for teacher in record["teachers"]] == [64]
    assert "/" not in json.dumps(record["options"])

    again = replace(options, out=options.out.with_name("again"), workers=2, pairs=6, val_pairs=1)
    compose(again)
    for name, count in (("train.json", 6), ("val.json", 1)):
        entries = [json.loads((out / name).read_text()) for out in (again.out, options.out)]
        assert entries[0] == entries[1][:count]
    assert np.array_equal(cv2.imread(str(again.out / "t000003_2.png")), cv2.imread(str(train[3].after)))
    with pytest.raises(SampleError, match="exists already"):
        compose(options)


@pytest.mark.footage
@pytest.mark.slow
def test_labelled_frames_beside_the_pairs(options: ComposeOptions, tmp_path: Path) -> None:
    """Of every camera that is not excluded; pairs are added to a folder that holds frames alone."""
    few = replace(
        options, out=tmp_path / "both", pairs=2, val_pairs=1, exclude=("*vtest*", "tfl*"), frames=True
    )
    label_frames(label_options(few))
    frames = (few.out / "frames.jsonl").read_bytes()
    with pytest.raises(FootageError):
        compose(replace(few, val_cameras=("garden",)))
    report = compose(few)
    assert report.pairs == {"train": 2, "val": 1}
    assert (few.out / "frames.jsonl").read_bytes() == frames
    assert {f.camera for f in read_frames(few.out)} == {
        Path(name).stem for name in NAMES if "tfl" not in name
    }
    assert len(load_samples(few.out, "train")) == 2
    assert not (few.out / "pairs").exists()
    with pytest.raises(SampleError, match="exists already"):
        compose(few)


@pytest.mark.footage
def test_footage_that_cannot_serve(options: ComposeOptions, tmp_path: Path) -> None:
    new = replace(options, out=tmp_path / "out")
    with pytest.raises(FootageError, match=r"no clips of garden .* there are intel_car-detection"):
        compose(replace(new, val_cameras=("garden",)))
    with pytest.raises(FootageError, match="needs a camera that is not trained on"):
        compose(replace(new, exclude=("*vtest*", "tfl*", "intelprev*")))
    every = tmp_path / "every.jsonl"
    times = [{"clip": NAMES[2], "seconds": s} for s in range(0, 40, 2)]
    every.write_text("\n".join(json.dumps(t) for t in times))
    with pytest.raises(FootageError, match="no four frames are left of intel_car-detection; there are"):
        compose(replace(new, recipe=Recipe(frames_per_camera=8), avoid=every))
    assert list(tmp_path.iterdir()) == [every]


@pytest.mark.footage
def test_a_clip_that_must_be_avoided_is_left_out_with_a_note(options: ComposeOptions, tmp_path: Path) -> None:
    avoid = tmp_path / "pairs.jsonl"
    sides = [{"before": {"clip": NAMES[1], "seconds": s}, "after": {"clip": "still.png", "seconds": None}}
             for s in range(0, 12, 3)]  # fmt: skip
    avoid.write_text("\n".join(json.dumps(s) for s in sides))
    out = tmp_path / "out"
    report = compose(
        replace(
            options,
            out=out,
            pairs=4,
            val_pairs=1,
            recipe=Recipe(frames_per_camera=8),
            avoid=avoid,
            exclude=("*vtest*",),
        )
    )
    assert report.train_cameras == ("intelprev_worker-zone-detection",)
    (note,) = report.notes
    assert note.startswith(NAMES[1])
    assert "more than 2 s from the times to avoid" in note
    record = json.loads((out / "compose.json").read_text())
    assert record["report"]["notes"] == [note]
    assert record["options"]["avoid"] == "pairs.jsonl"


def test_options_without_meaning(tmp_path: Path) -> None:
    options = ComposeOptions(
        clips=tmp_path, teachers=(TeacherFile(tmp_path / "net.onnx"),), out=tmp_path / "out"
    )
    with pytest.raises(FootageError, match="no clips"):
        compose(options)
    with pytest.raises(ValueError, match="variety"):
        compose(replace(options, variety="poetic"))
    with pytest.raises(ValueError, match="at least 1"):
        compose(replace(options, pairs=0))
