from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from train.metrics import file_scores as command
from train.metrics.authority import MissingScorersError, Semantic
from train.metrics.caption_files import matched, read_captions
from train.metrics.scores import CONSTANT, text_scores

Run = Callable[..., tuple[int, str, str]]
GOLD = {
    "1": ["a red car has appeared on the left", "there is now a car"],
    "2": ["the man is gone"],
    "3": ["nothing has changed"],
}
SAID = {"1": "the red car on the left is gone", "2": "a man is gone", "3": "there is no change"}


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def coco(captions: dict[str, list[str]]) -> list[dict[str, object]]:
    return [{"image_id": int(name), "caption": c} for name, own in captions.items() for c in own]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    gold = write(tmp_path / "gold.json", {"annotations": coco(GOLD)})
    said = write(tmp_path / "mine.json", [{"image_id": k, "caption": v} for k, v in SAID.items()])
    return gold, said


def test_score_prints_trivial_rows_beside_the_scores(run: Run, files: tuple[Path, Path]) -> None:
    code, shown, told = run("score", *files, "--no-meteor", "--train", files[0])
    assert (code, told) == (0, "")
    assert [line for line in shown.splitlines() if "mine" in line]
    for row in (
        "constant",
        "best constant of train",
        "random training caption",
        "human, by the others",
    ):
        assert row in shown
    assert f'constant: "{CONSTANT}"' in shown
    code, shown, _ = run("score", *files, "--no-meteor", "--json")
    found = json.loads(shown)
    assert list(found["rows"]) == ["mine", "constant", "human, by the others"]
    assert found["rows"]["mine"]["cider"] == round(
        text_scores(list(SAID.values()), list(GOLD.values())).cider, 4
    )
    assert found["truth"]["type"] == 0.5
    assert found["truth"]["polarity"] == 0.5
    assert found["truth"]["no_change_recall"] == found["truth"]["no_change_precision"] == 1
    assert found["spice"] is None


def test_groups_are_scored_by_themselves(tmp_path: Path, files: tuple[Path, Path]) -> None:
    def change(kind: str) -> dict[str, object]:
        return {"type": kind, "object": "car"}

    known = [
        {"img_id": "1", "kind": "changed", "sentences": GOLD["1"], "changes": [change("appeared")]},
        {
            "img_id": "2",
            "kind": "changed",
            "sentences": GOLD["2"],
            "changes": [change("fewer"), change("more")],
        },
        {"img_id": "3", "kind": "light", "sentences": GOLD["3"], "changes": []},
    ]
    found = command.score_files(write(tmp_path / "known.json", known), files[1], with_meteor=False)
    groups = dict(found.groups)
    assert list(groups) == ["changed", "distractor", "appeared", "more or fewer"]
    assert groups["changed"] == text_scores([SAID["1"], SAID["2"]], [GOLD["1"], GOLD["2"]])
    assert groups["distractor"].pairs == 1
    typed = [
        {"image_id": 1, "caption": "a", "type": "drop"},
        {"image_id": 2, "caption": "b", "type": "distractor"},
    ]
    assert read_captions(write(tmp_path / "typed.json", typed)).groups == {
        "1": ("changed", "drop"),
        "2": ("distractor",),
    }


def test_types_as_clevr_change_has_them(tmp_path: Path, run: Run) -> None:
    ids = ("000000.png", "000001.png", "000000.png_n")
    gold = [{"image_id": name, "caption": text} for name, (text, *_) in zip(ids, GOLD.values(), strict=True)]
    path = write(tmp_path / "total_change_captions_reformat.json", {"annotations": gold})
    types = write(
        tmp_path / "type_mapping.json", {"move": ["000000.png"], "drop": ["000001.png", "000009.png"]}
    )
    code, shown, _ = run("score", path, path, "--types", types, "--no-meteor", "--json")
    assert code == 0
    assert {n: g["pairs"] for n, g in json.loads(shown)["groups"].items()} == {
        "changed": 2,
        "distractor": 1,
        "drop": 1,
        "move": 1,
    }
    for content, said in (("[]", "has another form"), ('{"move": ["x"]}', "names none of the scored ids")):
        types.write_text(content)
        code, _, told = run("score", path, path, "--types", types, "--no-meteor")
        assert code == 1
        assert said in told


def test_meteor_and_spice(monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path], run: Run) -> None:
    """The programs themselves are tested in test_metrics; here is what becomes of their answers."""

    def unavailable(*_: object) -> list[Semantic]:
        raise MissingScorersError("no Java here")

    monkeypatch.setattr(command, "meteors", unavailable)
    assert command.score_files(*files).notes == ("METEOR is left out: no Java here",)
    code, shown, told = run("score", *files)
    assert code == 0
    assert "METEOR is left out: no Java here" in told
    monkeypatch.setattr(command, "meteors", lambda rows, gold: [Semantic(0.25, ())] * len(rows))
    found = command.score_files(*files, training=files[0])
    assert [row.meteor for row in found.rows] == [0.25, 0.25, 0.25, None, None]
    code, shown, told = run("score", *files, "--no-meteor", "--spice-jars", files[0].parent)
    assert (code, shown) == (1, "")
    assert "SPICE needs stanford-corenlp-3.6.0.jar" in told


def test_pairs_without_a_reference_are_told(run: Run, files: tuple[Path, Path]) -> None:
    write(files[0], coco({**GOLD, "2": ["."]}))
    code, shown, told = run("score", *files, "--no-meteor", "--json")
    assert code == 0
    assert json.loads(shown)["rows"]["mine"]["pairs"] == 2
    assert "gold.json: 1 pairs have no other reference and are not scored (2)" in told


def test_captions_are_merged_by_id_and_empty_ones_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "gold.json", [*coco({"7": ["a car", "", "..."], "8": ["a bus"]}), *coco({"7": ["a van"]})]
    )
    read = read_captions(path)
    assert read.texts == {"7": ("a car", "a van"), "8": ("a bus",)}
    assert read.empty == 2
    bare = read_captions(write(path, coco({"7": ["a car"], "9": ["", "."]})))
    assert (bare.bare, list(bare.texts)) == (("9",), ["7"])
    silent = read_captions(write(tmp_path / "said.json", coco({"8": [""], "7": ["a"]})), keep_empty=True)
    assert matched(read, silent, (path, path)) == ["a", ""]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ('{"images": []}', "has another form"),
        ("[3]", "entry 0 is not an object"),
        ('[{"caption": "a"}]', "entry 0 needs an id"),
        ('[{"image_id": 1}]', "entry 0 needs an id"),
        ('[{"image_id": 1, "caption": 5}]', "entry 0 needs an id"),
        ('[{"image_id": 1, "caption": "."}]', "holds no caption with a word in it"),
        ("[]", "holds no caption"),
    ],
)
def test_broken_files_are_named(
    tmp_path: Path, content: str, said: str, run: Run, files: tuple[Path, Path]
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    code, shown, told = run("score", path, files[1], "--no-meteor")
    assert (code, shown) == (1, "")
    assert len(told.splitlines()) == 1
    assert "broken.json" in told
    assert said in told


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ({"1": ["a"], "2": ["b"]}, "1 ids (3) are in gold.json but not predicted"),
        ({**{k: ["a"] for k in GOLD}, "9": ["b"]}, "1 ids (9) gold.json has no reference for"),
        ({**{k: ["a"] for k in GOLD}, "2": ["b", "c"]}, "1 ids (2) have more than one prediction"),
    ],
)
def test_ids_that_do_not_fit_are_named(
    tmp_path: Path, predicted: dict[str, list[str]], said: str, run: Run, files: tuple[Path, Path]
) -> None:
    code, _, told = run("score", files[0], write(tmp_path / "said.json", coco(predicted)), "--no-meteor")
    assert code == 1
    assert said in told.replace(f"{files[0].parent}/", "")
    code, _, told = run("score", tmp_path / "none.json", files[1])
    assert code == 1
    assert "none.json cannot be read" in told
