"""Released layouts, made small by the tests, exactly as they are unpacked."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from train.papers.caption_files import annotation_statistics
from train.papers.datasets import COLUMNS, has_split, incomplete_splits, load_cub, load_nabirds, load_pairs
from train.papers.scores import sample_groups
from train.samples import SampleError


def image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((8, 8, 3), 90, np.uint8))


def clevr(folder: Path) -> Path:
    folder.mkdir()
    names = [f"{n:06d}" for n in range(4)]
    for name in names:
        image(folder / "images" / f"CLEVR_default_{name}.png")
        image(folder / "sc_images" / f"CLEVR_semantic_{name}.png")
        image(folder / "nsc_images" / f"CLEVR_nonsemantic_{name}.png")
    keys = [f"CLEVR_default_{name}.png" for name in names]
    changed = {key: [f"the cube of {key[14:20]} moved", "someone moved the cube"] for key in keys}
    write(folder / "change_captions.json", changed)
    alike = {key: ["no change was made", "the scene is the same"] for key in keys}
    write(folder / "no_change_captions.json", alike)
    write(folder / "splits.json", {"train": [0, 2], "val": [1], "test": [3]})
    write(folder / "type_mapping.json", {"move": ["000000.png", "000003.png"], "color": ["000001.png"]})
    return folder


def birds(folder: Path) -> Path:
    rows = [
        ("647514", "5595152", "train", 1, "Animal 1 is brown.  Animal 2 is blue."),
        ("647514", "5595152", "train", 2, 'animal2 has a "larger" head'),
        ("1", "2", "val", 1, "they look alike"),
        ("3", "2", "test", 1, "animal1 is red"),
    ]
    folder.mkdir()
    lines = ["\t".join(COLUMNS)]
    for first, second, split, number, text in rows:
        addresses = (
            "https://www.inaturalist.org/photos/{0}\thttps://static.inaturalist.org/photos/{0}/large.jpg"
        )
        sides = [f"{addresses.format(p)}\tParus\tbase" for p in (first, second)]
        lines.append("\t".join((*sides, split, str(number), text)))
    (folder / "birds-to-words-v1.0.tsv").write_text("\n".join(lines) + "\n")
    for name in ("647514.jpg", "5595152.jpeg", "1.png", "2.jpg", "3.jpg"):
        image(folder / "images" / name)
    return folder


def cub(folder: Path) -> Path:
    folder.mkdir()
    names = ["001.Albatross/Albatross_0001_1.jpg", "002.Wren/Wren_0002_2.jpg"]
    (folder / "images.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(names, 1)))
    for name in names:
        image(folder / "images" / name)
        text = (folder / "text_c10" / name).with_suffix(".txt")
        text.parent.mkdir(parents=True)
        text.write_text("this bird is white\n\nthe bird has a long beak\n")
    return folder


def nabirds(folder: Path) -> Path:
    folder.mkdir()
    names = {"0000139e-21dc": "0817/a.jpg", "0000d9fc-4e02": "0860/b.jpg"}
    (folder / "images.txt").write_text("".join(f"{key} {name}\n" for key, name in names.items()))
    (folder / "classes.txt").write_text("817 Oak Titmouse\n860 Ovenbird (Adult male)\n")
    (folder / "image_class_labels.txt").write_text("0000139e-21dc 817\n0000d9fc-4e02 860\n")
    for name in names.values():
        image(folder / "images" / name)
    return folder


def spot(folder: Path) -> Path:
    folder.mkdir()
    for split in ("train", "val", "test"):
        write(folder / f"{split}.json", [{"img_id": f"{split}1", "sentences": ["a car is gone", "7"]}])
        for suffix in ("", "_2", "_diff"):
            image(folder / f"{split}1{suffix}.png")
    return folder


SETS = {"clevr-change": clevr, "birds-to-words": birds, "cub": cub, "nabirds": nabirds, "spot-the-diff": spot}


PAIRS = ("clevr-change", "birds-to-words", "spot-the-diff")


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def test_clevr_change(tmp_path):
    folder = clevr(tmp_path / "set")
    train = load_pairs(folder, "train")
    assert [s.id for s in train] == ["000000", "000000_n", "000002", "000002_n"]
    assert [s.kind for s in train] == ["move", "distractor", "changed", "distractor"]
    assert train[0].after == folder / "sc_images" / "CLEVR_semantic_000000.png"
    assert train[1].after == folder / "nsc_images" / "CLEVR_nonsemantic_000000.png"
    assert train[1].before == train[0].before == folder / "images" / "CLEVR_default_000000.png"
    assert train[0].annotations == (("the cube of 000000 moved",), ("someone moved the cube",))
    alike = ("distractor",)
    assert [sample_groups(s) for s in train] == [("changed", "move"), alike, ("changed",), alike]
    (folder / "type_mapping.json").unlink()
    assert load_pairs(folder, "val")[0].kind == "changed"


def test_counts_of_every_set_of_pairs(tmp_path, run):
    folder = clevr(tmp_path / "clevr")
    code, shown, told = run("score", folder, "--json")
    assert code == 3, "a part of the release"
    assert "train: 4 of 67660 pairs are named" in told
    table = json.loads(shown)
    counted = {name: table[name]["distinct pairs"] for name in ("train", "val", "test", "all")}
    assert counted == {"train": 4, "val": 2, "test": 2, "all": 8}
    assert table["train"]["annotations"] == 8
    assert annotation_statistics(birds(tmp_path / "birds"))["train"]["annotations"] == 2
    for name in ("cub", "empty"):
        other = cub(tmp_path / name) if name == "cub" else tmp_path / name
        other.mkdir(exist_ok=True)
        code, _, told = run("score", other)
        assert code == 1
        assert "holds no set that is known" in told


def test_birds_to_words(tmp_path):
    folder = birds(tmp_path / "set")
    (pair,) = load_pairs(folder, "train")
    assert pair.id == "647514_5595152"
    assert pair.after == folder / "images" / "5595152.jpeg"
    assert pair.annotations == (("Animal 1 is brown. Animal 2 is blue.",), ('animal2 has a "larger" head',))
    assert sample_groups(pair) == ("changed",)


def test_single_birds(tmp_path):
    first, second = load_cub(cub(tmp_path / "cub"))
    assert first.captions == ("this bird is white", "the bird has a long beak")
    assert (first.label, second.label) == ("001.Albatross", "002.Wren")
    labels = [i.label for i in load_nabirds(nabirds(tmp_path / "nabirds"))]
    assert labels == ["817 Oak Titmouse", "860 Ovenbird (Adult male)"]


@pytest.mark.parametrize("name", PAIRS)
def test_missing_images_are_named(name, tmp_path):
    folder = SETS[name](tmp_path / "set")
    assert has_split(folder, "val")
    sample = load_pairs(folder, "test")[0]
    sample.after.unlink()
    with pytest.raises(SampleError, match=r"test: 1 of \d images are missing, the first is"):
        load_pairs(folder, "test")
    assert load_pairs(folder, "test", require_images=False)
    lines = incomplete_splits(folder)
    assert any(str(sample.after.with_suffix("")) in line for line in lines)
    released = [line for line in lines if "a part of the release" in line]
    assert len(released) == (0 if name == "birds-to-words" else 3)


TSV, HEAD = "birds-to-words-v1.0.tsv", "\t".join(COLUMNS) + "\n"
BROKEN: dict[str, tuple[str, str, str, str]] = {
    "no splits": ("clevr-change", "splits.json", "{}", "has no list 'train'"),
    "no JSON": ("clevr-change", "splits.json", "{", "is not valid JSON"),
    "odd scene": ("clevr-change", "splits.json", '{"train": ["x"]}', "expected numbers of scenes"),
    "list": ("clevr-change", "change_captions.json", "[]", "valid dictionary"),
    "no caption": ("clevr-change", "change_captions.json", "{}", "has no caption of CLEVR_default_000000"),
    "odd caption": ("clevr-change", "change_captions.json", '{"a": [3]}', "valid string"),
    "odd type": ("clevr-change", "type_mapping.json", '{"move": ["x.png"]}', "or names such as 000000.png"),
    "columns": ("birds-to-words", TSV, "a\tb\n", "expected the columns"),
    "no pair": ("birds-to-words", TSV, HEAD, "no pair of the split"),
    "no photo": ("birds-to-words", TSV, HEAD + "x\t" * 8 + "train\t1\ta\n", "'x' is not the address"),
    "no words": ("cub", "text_c10/002.Wren/Wren_0002_2.txt", "7\n", "no caption with a word in it"),
    "no name": ("cub", "images.txt", "1\n", "line 1: expected a key and a value"),
    "no image": ("cub", "images.txt", "", "names nothing"),
    "no class": ("nabirds", "image_class_labels.txt", "x 817\n", "image 0000139e-21dc has no class"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named_with_their_cure(case, tmp_path):
    name, file, text, said = BROKEN[case]
    folder = SETS[name](tmp_path / "set")
    (folder / file).write_text(text)
    load = {"cub": load_cub, "nabirds": load_nabirds}.get(name)
    with pytest.raises(SampleError) as raised:
        load(folder) if load else load_pairs(folder, "train")
    assert Path(file).name in str(raised.value)
    assert said in str(raised.value)
