import json
from pathlib import Path

import pytest

from train.papers import caption_files as command
from train.papers import scores
from train.papers.caption_files import match_captions, read_captions
from train.papers.scores import CONSTANT, plain, text_scores

GOLD = {
    "1": ["a red car has appeared on the left", "there is now a car"],
    "2": ["the man is gone"],
    "3": ["nothing has changed"],
}
SAID = {"1": "the red car on the left is gone", "2": "a man is gone", "3": "there is no change"}


pytestmark = pytest.mark.usefixtures("no_java")


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def coco(captions: dict[str, list[str]]) -> list[dict[str, object]]:
    return [{"image_id": int(name), "caption": c} for name, own in captions.items() for c in own]


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    gold = write(tmp_path / "gold.json", {"annotations": coco(GOLD)})
    said = write(tmp_path / "mine.json", [{"image_id": k, "caption": v} for k, v in SAID.items()])
    return gold, said


def test_score_prints_trivial_rows_beside_the_scores(run, files):
    code, shown, told = run("score", *files, "--train", files[0])
    assert code == 0
    assert "does not say who wrote which caption, so there is no human row" in told
    assert [line for line in shown.splitlines() if "mine" in line]
    for row in ("constant", "best constant of train", "random training caption"):
        assert row in shown
    assert f'constant: "{CONSTANT}"' in shown
    code, shown, _ = run("score", *files, "--json")
    found = json.loads(shown)
    assert list(found["rows"]) == ["mine", "constant"]
    assert found["rows"]["mine"]["cider"] == round(
        text_scores(list(SAID.values()), list(GOLD.values()))["cider"], 4
    )
    assert found["truth"]["type"] == 0.5
    assert found["truth"]["polarity"] == 0.5
    assert found["truth"]["no_change_recall"] == found["truth"]["no_change_precision"] == 1


def test_groups_are_scored_by_themselves(tmp_path, files):
    known = []
    for name, kind, types in (
        ("1", "changed", ["appeared"]),
        ("2", "changed", ["fewer", "more"]),
        ("3", "light", []),
    ):
        changes = [{"type": each, "object": "car"} for each in types]
        known.append({"img_id": name, "kind": kind, "sentences": GOLD[name], "changes": changes})
    found = command.score_files(write(tmp_path / "known.json", known), files[1])
    groups = found["groups"]
    assert list(groups) == ["changed", "distractor", "appeared", "more or fewer"]
    assert groups["changed"] == plain(text_scores([SAID["1"], SAID["2"]], [GOLD["1"], GOLD["2"]]))
    assert groups["distractor"]["pairs"] == 1
    typed = [{"image_id": k, "caption": "a", "type": each} for k, each in enumerate(("drop", "distractor"))]
    read = read_captions(write(tmp_path / "typed.json", typed))
    assert read.groups == {"0": ("changed", "drop"), "1": ("distractor",)}


def test_types_as_clevr_change_has_them(tmp_path, run):
    ids = ("000000.png", "000001.png", "000000.png_n")
    gold = [{"image_id": name, "caption": text} for name, (text, *_) in zip(ids, GOLD.values(), strict=True)]
    path = write(tmp_path / "total_change_captions_reformat.json", {"annotations": gold})
    mapping = {"move": ["000000.png"], "drop": ["000001.png", "000009.png"]}
    types = write(tmp_path / "type_mapping.json", mapping)
    code, shown, _ = run("score", path, path, "--types", types, "--json")
    assert code == 0
    pairs = {name: group["pairs"] for name, group in json.loads(shown)["groups"].items()}
    assert pairs == {"changed": 2, "distractor": 1, "drop": 1, "move": 1}
    names = ("000000", "CLEVR_semantic_000001.png", "000000_n")
    plain = [{"image_id": name, "caption": "x"} for name in names]
    named = command.score_files(path, write(tmp_path / "x.json", plain), types=types)
    assert named["groups"]["move"]["pairs"] == 1
    for content in ("[]", '{"move": ["x"]}'):
        types.write_text(content)
        code, _, told = run("score", path, path, "--types", types)
        assert code == 1
        assert "type_mapping.json" in told


def test_meteor_where_java_is(monkeypatch, files, run):
    code, _, told = run("score", *files)
    assert code == 0
    assert "METEOR is left out: it needs Java" in told
    monkeypatch.setattr(
        scores, "meteor_scores", lambda systems, _gold: [0.25 * (k + 1) for k in range(len(systems))]
    )
    found = command.score_files(*files, training=files[0])
    assert [row.get("meteor") for row in found["rows"].values()] == [0.25, 0.5, 0.75, 1.0]
    assert not any("METEOR" in note for note in found["notes"])


def test_references_without_words_count_and_pairs_without_any_are_told(run, files):
    write(files[0], coco({**GOLD, "2": ["."]}))
    code, shown, told = run("score", *files, "--json")
    assert code == 0
    assert json.loads(shown)["rows"]["mine"]["pairs"] == 3
    assert json.loads(shown)["truth"]["pairs"] == 1
    assert "gold.json: 1 references have no word; they count" in told
    write(files[0], [{"img_id": k, "sentences": own if k != "2" else []} for k, own in GOLD.items()])
    code, shown, told = run("score", *files, "--json")
    assert json.loads(shown)["rows"]["mine"]["pairs"] == 2
    assert "gold.json: 1 pairs have no reference and are not scored (2)" in told


def test_captions_are_merged_by_id_and_empty_ones_stay(tmp_path):
    path = write(
        tmp_path / "gold.json", [*coco({"7": ["a car", "", "..."], "8": ["a bus"]}), *coco({"7": ["a van"]})]
    )
    read = read_captions(path)
    assert read.texts == {"7": ("a car", "", "...", "a van"), "8": ("a bus",)}
    assert (read.empty, read.annotators) == (2, {})
    silent = read_captions(write(tmp_path / "said.json", coco({"8": [""], "7": [""]})), may_be_silent=True)
    assert match_captions(read, silent, (path, path)) == ["", ""]
    path.write_text(path.read_text(), encoding="utf-8-sig")  # a byte order mark is no fault
    assert read_captions(path) == read


def test_people_are_judged_by_other_people(tmp_path, files):
    first, second = ("a red car has appeared", "it is new"), ("there is now a car",)
    entries = [
        *({"img_id": "1", "sentences": list(own)} for own in (first, second)),
        {"img_id": "2", "sentences": ["the man is gone", "he has left"]},
        {"img_id": "3", "sentences": ["nothing"]},
    ]
    known = read_captions(write(tmp_path / "known.json", entries)).annotators
    assert (known["1"], known["2"]) == ((first, second), (("the man is gone", "he has left"),))
    rows = command.score_files(tmp_path / "known.json", files[1])["rows"]
    whole, one = rows["human, by the others"], rows["human, first sentence"]
    assert whole["pairs"] == one["pairs"] == 1
    joined = text_scores([" ".join(first), *second], [second, [" ".join(first)]])
    assert whole["bleu"] == pytest.approx(joined["bleu"], abs=1e-4)
    assert one["bleu"] == pytest.approx(text_scores([first[0], *second], [second, first])["bleu"], abs=1e-4)
    named = [{**e, "annotator": k % 2} for k, e in enumerate(coco({"1": [first[0], second[0], first[1]]}))]
    assert read_captions(write(tmp_path / "named.json", named)).annotators == {"1": (first, second)}


def test_the_released_annotations_give_the_papers_table_2(spot_the_diff):
    several = read_captions(spot_the_diff / "train.json").annotators.values()
    people = command.human_scores([own for own in several if len(own) == 3])  # as many as in the paper
    whole = people["human, by the others"]
    assert whole["pairs"] == 413
    assert whole["bleu"] == pytest.approx((0.41, 0.25, 0.15, 0.08), abs=0.007)
    assert whole["rouge_l"] == pytest.approx(0.31, abs=0.007)


def test_the_released_annotations_score_the_constant_as_the_field_does(spot_the_diff):
    """All 1,270 pairs, those among them whose only reference has no word."""
    gold = list(read_captions(spot_the_diff / "test.json").texts.values())
    row = text_scores([CONSTANT] * len(gold), gold)
    assert row["pairs"] == 1270
    assert (row["bleu"][3], row["rouge_l"], row["cider"]) == pytest.approx((0.083, 0.274, 0.297), abs=6e-4)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"images": []}',
        "[3]",
        '[{"caption": "a"}]',
        '[{"image_id": 1}]',
        '[{"image_id": 1, "caption": 5}]',
        '[{"image_id": 1, "caption": "."}]',
        "[]",
    ],
)
def test_broken_files_are_named(tmp_path, content, run, files):
    path = tmp_path / "broken.json"
    path.write_text(content)
    code, shown, told = run("score", path, files[1])
    assert (code, shown) == (1, "")
    assert len(told.splitlines()) == 1
    assert "broken.json" in told


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        ({"1": ["a"], "2": ["b"]}, "1 ids (3) are in gold.json but not predicted"),
        ({**{k: ["a"] for k in GOLD}, "9": ["b"]}, "1 ids (9) gold.json has no reference for"),
        ({**{k: ["a"] for k in GOLD}, "2": ["b", "c"]}, "1 ids (2) have more than one prediction"),
    ],
)
def test_ids_that_do_not_fit_are_named(tmp_path, predicted, said, run, files):
    code, _, told = run("score", files[0], write(tmp_path / "said.json", coco(predicted)))
    assert code == 1
    assert said in told.replace(f"{files[0].parent}/", "")
    code, _, told = run("score", tmp_path / "none.json", files[1])
    assert code == 1
    assert "none.json does not exist" in told
