from __future__ import annotations

import json
from pathlib import Path

import pytest

from train.metrics.annotations import (
    Annotation,
    AnnotationError,
    annotation_statistics,
    folder_statistics,
    read_annotations,
)


def test_counts_by_hand() -> None:
    counted = annotation_statistics(
        [
            Annotation("1", ("a car is gone", "", "2")),
            Annotation("1", ("a car " * 11,)),
            Annotation("2", ("a a a a",)),
        ]
    )
    assert (counted.annotations, counted.pairs, counted.sentences) == (3, 2, 5)
    assert (counted.empty, counted.number_only) == (1, 1)
    assert counted.sentences_mean == pytest.approx(5 / 3)
    assert counted.words_mean == pytest.approx((4 + 22 + 4) / 3)
    assert counted.long_share == pytest.approx(1 / 3)
    assert counted.vocabulary == 4
    assert counted.frequent == 2
    assert counted.frequent_share == pytest.approx(28 / 30)


def test_nothing_to_count(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no annotations"):
        annotation_statistics([])
    with pytest.raises(AnnotationError, match="holds no annotations"):
        folder_statistics(tmp_path)
    assert annotation_statistics([Annotation("1", ("",))]).words_mean == 0


@pytest.mark.parametrize(
    "text", ["{}", "[3]", '[{"img_id": "1"}]', '[{"img_id": "1", "sentences": [1]}]', "[{"]
)
def test_broken_files_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.json"
    path.write_text(text)
    with pytest.raises(AnnotationError, match=r"train\.json"):
        read_annotations(path)
    with pytest.raises(AnnotationError, match="cannot be read"):
        read_annotations(tmp_path)


def test_the_released_annotations_are_those_of_table_1(bench: Path) -> None:
    folder = bench.parent / "data" / "spot-the-diff"
    if not folder.is_dir():
        pytest.skip("no Spot-the-diff annotations beside the checkout")
    rows = folder_statistics(folder)
    assert [rows[s].annotations for s in ("train", "val", "test")] == [9524, 1634, 1404]
    assert [rows[s].pairs for s in ("train", "val", "test")] == [8566, 1493, 1270]
    every = rows["all"]
    assert (every.empty, every.number_only, every.sentences) == (66, 63, 23093)
    # The paper: 1.86 (1.01) sentences, 10.96 (4.97) words with punctuation, 5 % over 20 words, of 13,192.
    assert (every.sentences_mean, every.sentences_sd) == (
        pytest.approx(1.86, abs=0.03),
        pytest.approx(1.01, abs=0.01),
    )
    assert (every.words_mean, every.words_sd) == (
        pytest.approx(10.96, abs=0.4),
        pytest.approx(4.97, abs=0.05),
    )
    assert every.long_share == pytest.approx(0.05, abs=0.005)
    assert every.frequent_share >= 0.97
    assert json.dumps(every.vocabulary) == "2294"
