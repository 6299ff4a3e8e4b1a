"""The checkpoints that ship: they load, say how they were made, and were not made from the test scene."""

import json
from collections import Counter

from models import CAPTIONERS, DEFAULT, SHIPPED, load_captioner


def test_the_default_is_the_grounded_one():
    assert (DEFAULT, load_captioner().name) == ("grounded", "grounded")
    assert set(SHIPPED) <= set(CAPTIONERS)
    assert all(load_captioner(path).name == name for name, path in SHIPPED.items())


def test_ddla_says_how_it_was_made_without_the_test_scene():
    record = load_captioner(SHIPPED["ddla"]).record
    assert record["command"].startswith("narrated-train train --data ")
    assert f"--seed {record['training']['seed']}" in record["command"]
    assert all(len(record[f"{split}_sha256"]) == 64 for split in ("train", "val"))
    assert record["train_pairs"] >= 1000
    assert record["versions"].keys() >= {"narrated", "torch", "numpy"}
    [chosen] = [point for point in record["curves"] if point["epoch"] == record["best_epoch"]]
    metric = chosen[record["metric"]]
    assert metric in {pick(point[record["metric"]] for point in record["curves"]) for pick in (min, max)}
    composed = json.loads(SHIPPED["ddla"].with_suffix(".compose.json").read_text())
    assert composed["options"]["seed"] >= 1
    assert all(len(sha256) == 64 and "vtest" not in clip for clip, sha256 in composed["clips"].items())


def test_the_grounded_one_names_every_camera_with_source_licence_and_hashes():
    record = load_captioner().record
    assert record["command"].startswith("narrated-train train --")
    assert all(record[name] for name in ("seed", "start", "teachers", "steps"))
    assert len(record["frames"]["sha256"]) == 64
    assert record["frames"]["learnt"] >= 1000
    assert len(record["cameras"]) >= 50
    for camera in record["cameras"]:
        assert camera["licence"], camera["name"]
        assert camera["files"], camera["name"]
        assert all(len(sha) == 64 and "vtest" not in name for name, sha in camera["files"].items())
    used = Counter(camera["used"] for camera in record["cameras"])
    assert used["to validate"] == len(record["validation_cameras"]) >= 5


def test_the_grounded_one_has_seen_no_camera_that_it_is_tested_on(bench):
    tested = {path.stem for path in (bench.parent / "data" / "cameras" / "test").iterdir()}
    assert not tested & {camera["name"] for camera in load_captioner().record["cameras"]}
