import json
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest

from train.samples import (
    SampleChange,
    SampleError,
    load_samples,
    new_folder,
    sample_entry,
    write_entries,
    write_image,
)


def released_folder(folder: Path, entries: list[object], images: tuple[str, ...] = ("5406", "5614")) -> Path:
    """A small set in the layout in which Spot-the-diff was released."""
    folder.mkdir(exist_ok=True)
    (folder / "val.json").write_text(json.dumps(entries))
    for name in images:
        for suffix in (".png", "_2.png"):
            cv2.imwrite(str(folder / (name + suffix)), np.zeros((224, 224, 3), np.uint8))
    return folder


ENTRIES: list[object] = [
    {"img_id": "5406", "sentences": ["the blue truck is gone", "", "2"]},
    {"img_id": "5614", "sentences": ["a blue car  is pulling out"]},
    {"img_id": "5406", "sentences": ["there is no truck anymore"]},
    {"img_id": "5614", "sentences": ["", "1"]},
]


def test_reads_the_released_layout_and_merges_annotators(tmp_path):
    first, second = load_samples(released_folder(tmp_path / "set", ENTRIES), "val")
    assert first.id == "5406"
    assert first.before == tmp_path / "set" / "5406.png"
    assert first.after == tmp_path / "set" / "5406_2.png"
    assert first.annotations == (("the blue truck is gone",), ("there is no truck anymore",))
    assert second.sentences == ("a blue car is pulling out",)
    assert second.further == ()
    assert second.changes == ()


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        '{"img_id": 1}',
        '[{"img_id": "1"}]',
        '[{"img_id": "../1", "sentences": ["a car"]}]',
        '[{"img_id": "1", "sentences": ["", "7"]}]',
        "[]",
        '[{"img_id": "1", "sentences": ["a car"], "changes": [{"type": "moved"}]}]',
    ],
)
def test_says_which_file_is_wrong(tmp_path, text):
    (tmp_path / "train.json").write_text(text)
    with pytest.raises(SampleError, match=r"train\.json"):
        load_samples(tmp_path, "train")


def test_a_missing_split_names_what_is_there(tmp_path):
    with pytest.raises(SampleError, match=r"test\.json does not exist; .*val\.json"):
        load_samples(released_folder(tmp_path / "set", ENTRIES), "test")


def test_what_is_written_is_read_again(tmp_path):
    out = tmp_path / "made" / "samples"
    image = np.random.default_rng(1).integers(0, 256, (24, 32, 3), np.uint8)
    boxes = (0.1, 0.2, 0.3, 0.4), (0.5, 0.2, 0.3, 0.4)
    change = SampleChange("moved", "car", 2, *boxes, "the two cars have moved")
    with new_folder(out) as folder:
        write_image(folder / "t1.png", image)
        write_image(folder / "t1_2.png", image[:, ::-1])
        entry = sample_entry("t1", [change.sentence], "corner", "real", [asdict(change)])
        write_entries(folder / "train.json", [entry])
        assert not out.exists()
    (read,) = load_samples(out, "train")
    assert read.changes == (change,)
    assert (read.camera, read.kind, read.sentences) == ("corner", "real", (change.sentence,))
    assert read.changes[0].area == pytest.approx(0.12)
    assert np.array_equal(cv2.imread(str(read.before))[..., ::-1], image)
    assert np.array_equal(cv2.imread(str(read.after))[..., ::-1], image[:, ::-1])


def interrupted(out: Path) -> None:
    with new_folder(out) as folder:
        (folder / "t1.png").write_bytes(b"half")
        raise RuntimeError("power cut")


def test_a_failed_run_leaves_no_folder_and_an_old_one_is_not_touched(tmp_path):
    out = tmp_path / "samples"
    with pytest.raises(RuntimeError, match="power cut"):
        interrupted(out)
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    with pytest.raises(SampleError, match="exists already"), new_folder(out):
        pytest.fail("an existing folder must not be filled")


def test_an_image_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(SampleError, match="cannot be written"):
        write_image(tmp_path / "nowhere" / "t1.png", np.zeros((4, 4, 3), np.uint8))
