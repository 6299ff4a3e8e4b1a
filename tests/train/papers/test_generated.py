import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from models.papers.vocabulary import read
from train.papers.batches import read_image
from train.papers.generated.folder import NO_CHANGE, GenerateOptions, generate
from train.papers.generated.stage import SIBLINGS
from train.samples import Sample, load_samples

Made = tuple[Path, dict[str, dict[str, int]]]
PAIRS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    out = tmp_path_factory.mktemp("generated") / "set"
    return out, generate(GenerateOptions(PAIRS, seed=3, cameras=20), out)


@pytest.fixture(scope="module")
def samples(made) -> list[Sample]:
    return load_samples(made[0], "train")


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_the_folder_reads_as_samples(made, samples):
    folder, report = made
    assert report["pairs"] == {"train": 48, "val": 6, "test": 6}
    assert len(samples) == 48
    assert all(len(s.annotations) == 3 for s in samples)
    assert sum(report["kinds"].values()) == PAIRS
    assert set(report["kinds"]) == {"changed", "light", "view", "shift"}
    assert json.loads((folder / "generated.json").read_text())["report"]["pairs"] == report["pairs"]
    views = {split: {s.camera for s in load_samples(folder, split)} for split in ("train", "val", "test")}
    assert not views["train"] & (views["val"] | views["test"])
    assert not views["val"] & views["test"]


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    options = GenerateOptions(20, seed=9, side=96, cameras=5)
    told: list[tuple[str, int, int]] = []
    generate(options, tmp_path / "one", progress=lambda *seen: told.append(seen))
    generate(options, tmp_path / "two" / "one")
    first = digest(tmp_path / "one")
    assert first == digest(tmp_path / "two" / "one")
    assert told[-1] == ("test", 2, 2)
    generate(GenerateOptions(20, seed=10, side=96, cameras=5), tmp_path / "three")
    other = digest(tmp_path / "three")
    assert all(other[name] != first[name] for name in other if name.endswith((".png", "0.json")))


def test_every_sentence_is_read_as_what_it_tells(made):
    types = Counter()
    for split in ("train", "val", "test"):
        for entry in json.loads((made[0] / f"{split}.json").read_text()):
            if entry["kind"] != "changed":
                assert entry["sentences"][0] in NO_CHANGE
                assert read(entry["sentences"][0]).type == "none"
                continue
            told = {change["sentence"]: change for change in entry["changes"] if change["sentence"]}
            for sentence in entry["sentences"]:
                change, wording = told[sentence], read(sentence)
                types[change["type"]] += 1
                assert wording.type == change["type"], sentence
                assert wording.object in (change["object"], "vehicle"), sentence
                if change["type"] in ("appeared", "disappeared"):
                    assert wording.count in (change["count"], 0), sentence
    assert set(types) >= {"appeared", "disappeared", "moved", "replaced"}


def inside(sample: Sample, side: int) -> list[np.ndarray]:
    """Per change which pixels its boxes hold, two pixels wider, bool ``(side, side)``."""
    masks = []
    for change in sample.changes:
        mask = np.zeros((side, side), bool)
        for box in (change.box_before, change.box_after):
            if box is not None:
                x, y, width, height = (v * side for v in box)
                mask[max(int(y) - 2, 0) : int(y + height) + 3, max(int(x) - 2, 0) : int(x + width) + 3] = True
        masks.append(mask)
    return masks


def test_frames_differ_in_every_change_and_nowhere_else(tmp_path):
    """Without moving light, a turned view or small things that nobody tells."""
    options = GenerateOptions(30, side=224, distractors=0.0, ignored=0.0)
    generate(options, tmp_path / "set")
    entries = {e["img_id"]: e for e in json.loads((tmp_path / "set" / "train.json").read_text())}
    still = [s for s in load_samples(tmp_path / "set", "train") if entries[s.id]["camera_change"] == "still"]
    assert len(still) > 5
    for sample in still:
        before, after = read_image(sample.before).astype(int), read_image(sample.after).astype(int)
        differs = np.abs(before - after).max(2) > 30
        masks = inside(sample, 224)
        assert not (differs & ~np.any(masks, axis=0)).any()
        assert all((mask & differs).sum() > 0.1 * mask.sum() for mask in masks)


@pytest.mark.parametrize("wrong", [{"pairs": 9}, {"side": 32}, {"distractors": 1.5}, {"cameras": 2}])
def test_what_cannot_be_generated(wrong):
    with pytest.raises(ValueError, match="at least 10 pairs"):
        GenerateOptions(**({"pairs": 10} | wrong))


@pytest.fixture(scope="module")
def siblings(tmp_path_factory) -> list[tuple[Sample, Sample]]:
    """Pairs of a crowd, in which the caption is needed: what changed has others like it beside it."""
    out = tmp_path_factory.mktemp("crowded") / "set"
    generate(GenerateOptions(60, seed=4, cameras=20, crowded=True), out)
    samples = load_samples(out, "train")
    found = zip(samples[::SIBLINGS], samples[1::SIBLINGS], strict=False)
    return [(one, two) for one, two in found if one.kind == "changed"]


def test_siblings_differ_in_what_changed(siblings):
    assert len(siblings) > 10
    for one, two in siblings:
        assert one.before.read_bytes() == two.before.read_bytes()
        [first], [second] = one.changes, two.changes
        assert (first.type, first.object, first.count) == (second.type, second.object, 1)
        assert (first.box_after or first.box_before) != (second.box_after or second.box_before)
        assert (np.abs(read_image(one.after).astype(int) - read_image(two.after)).max(axis=2) > 30).any()


def test_only_the_end_of_a_caption_tells_siblings_apart(siblings):
    shared = 0
    for one, two in siblings:
        said = [{s for told in each.annotations for s in told} for each in (one, two)]
        assert not said[0] & said[1]
        assert {read(sentence).type for sentence in said[0] | said[1]} == {one.changes[0].type}
        shared += any(a.split()[:3] == b.split()[:3] for a in said[0] for b in said[1])
    assert shared > 0.5 * len(siblings)
