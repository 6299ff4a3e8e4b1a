from __future__ import annotations

from pathlib import Path

import pytest

from train.papers.metrics.annotations import annotation_statistics, statistics


def test_counts_by_hand() -> None:
    counted = statistics([("1", ("a car is gone", "", "2")), ("1", ("a car " * 11,)), ("2", ("a a a a",))])
    assert (counted["annotations"], counted["distinct pairs"], counted["sentences"]) == (3, 2, 5)
    assert (counted["sentences without a word"], counted["sentences that are only a number"]) == (1, 1)
    assert counted["sentences per annotation, mean"] == pytest.approx(5 / 3)
    assert counted["words per sentence, mean"] == pytest.approx((4 + 22 + 4) / 3)
    assert counted["sentences over 20 words, %"] == pytest.approx(100 / 3)
    assert counted["vocabulary"] == 4
    assert counted["words seen 5 times or more"] == 2
    assert counted["running words they cover, %"] == pytest.approx(2800 / 30)


def test_the_released_annotations_are_those_of_table_1(bench: Path) -> None:
    folder = bench.parent / "data" / "spot-the-diff"
    if not folder.is_dir():
        pytest.skip("no Spot-the-diff annotations beside the checkout")
    table = annotation_statistics(folder)
    assert list(table) == ["train", "val", "test", "all", "paper"]
    assert table.loc["annotations"].tolist() == [9524, 1634, 1404, 12562, 13192]
    assert table.loc["distinct pairs"].tolist()[:3] == [8566, 1493, 1270]
    every = table["all"]
    assert every[["sentences without a word", "sentences that are only a number"]].tolist() == [66, 63]
    assert (every["sentences"], every["vocabulary"]) == (23093, 2294)
    for name, within in (
        ("sentences per annotation, mean", 0.03),
        ("sentences per annotation, s.d.", 0.01),
        ("words per sentence, mean", 0.4),
        ("words per sentence, s.d.", 0.05),
        ("sentences over 20 words, %", 0.5),
    ):
        assert every[name] == pytest.approx(table["paper"][name], abs=within), name
    assert every["running words they cover, %"] >= 97
