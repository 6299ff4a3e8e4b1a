from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from models.captioner import Captioner, DescribeOptions, PairBatch, Sentence
from models.encoders.encoder import Encoder
from models.language.vocabulary import Vocabulary
from train.gallery.page import chosen, make_gallery, of_cameras, read_pairs
from train.gallery.pairs import figures, tell
from train.samples import Sample, SampleError, load_samples

OUTLINE = ((0.1, 0.1), (0.3, 0.1), (0.2, 0.4))


class Stubborn(Captioner):
    """Says about every cluster that a car has appeared there; its prior is the area."""

    name = "stubborn"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(Vocabulary.build(["a car"], 1), encoder)
        self.record = {"changes": {"eps": 8.0}}
        self.text = "A <b>car</b> has appeared."

    def salience(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features[:, 2]

    def describe(self, pairs: PairBatch, options: DescribeOptions | None = None) -> list[list[Sentence]]:
        boxes = [b[v].tolist() for b, v in zip(pairs.boxes, pairs.valid, strict=True)]
        return [[self._sentence(tuple(box)) for box in some] for some in boxes]

    def arguments(self) -> dict[str, Any]:
        raise NotImplementedError

    encode = step = loss = log_likelihood = prior_scores = fit_scaling = arguments

    def _sentence(self, box: tuple[float, float, float, float]) -> Sentence:
        return Sentence(self.text, "appeared", "car", box, 1.0, 0.75, after=box, outline_after=OUTLINE)


@pytest.fixture
def stubborn(toy_encoder: Encoder) -> Stubborn:
    return Stubborn(toy_encoder)


@pytest.fixture
def samples(sample_folder: Path) -> list[Sample]:
    """Nine pairs of two cameras: three appeared, three gone, three moved."""
    loaded = load_samples(sample_folder, "val")
    return [replace(s, camera="yard" if k < 4 else "street") for k, s in enumerate(loaded)]


def test_what_is_told_is_judged(samples: list[Sample], stubborn: Stubborn) -> None:
    ready: list[tuple[int, int]] = []
    told = tell(samples, stubborn, truth=True, progress=lambda *counts: ready.append(counts))
    assert ready == [(8, 9), (9, 9)]
    assert [each.sample.id for each in told] == [s.id for s in samples]
    assert [each.verdicts[0].right for each in told if each.sample.changes[0].type == "appeared"] == [
        True
    ] * 3
    assert not any(
        v.right for each in told for v in each.verdicts if "disappeared" in each.sample.sentences[0]
    )
    measured = figures(told)
    assert measured.changes == 9
    assert measured.found in (3, 6)  # what moved may be told as come where it is not known which it is
    assert sum(row.sentences for row in measured.groups["camera"].values()) == measured.all.sentences
    assert measured.reliability.counts[7] == measured.all.sentences
    assert measured.all.right is not None
    assert measured.reliability.ece == pytest.approx(abs(0.75 - measured.all.right))
    assert json.loads(json.dumps(measured.plain(), allow_nan=False))["found"] == measured.found
    assert (measured.unchanged, measured.alarms) == (0, 0)


def test_alarms_where_nothing_changed(samples: list[Sample], stubborn: Stubborn) -> None:
    same = replace(samples[0], changes=(), after=samples[0].before)
    false = replace(samples[1], changes=())
    measured = figures(tell([same, false], stubborn, truth=True))
    assert (measured.unchanged, measured.alarms) == (2, 1)
    assert measured.all.wrong["nothing there"] == 1


def test_sentences_are_drawn_by_the_seed(samples: list[Sample], stubborn: Stubborn) -> None:
    told = tell(samples, stubborn, truth=False)
    first, again, other = (chosen(told, 5, seed) for seed in (1, 1, 2))
    ids = [[card.subject.sample.id for card in cards] for cards in (first, again, other)]
    assert len(first) == 5
    assert ids[0] == ids[1] != ids[2]
    assert len(chosen(told, 100, 1)) == sum(len(each.sentences) for each in told)
    assert first[0].verdict is None


def test_a_crop_shows_what_is_told_on_its_side(samples: list[Sample], stubborn: Stubborn) -> None:
    [card] = chosen(tell(samples[:1], stubborn, truth=True), 1, 1)
    pictures = [cv2.imdecode(np.frombuffer(p, np.uint8), cv2.IMREAD_COLOR) for p in (card.before, card.after)]
    assert {p.shape for p in pictures} == {(288, 384, 3)}
    left, top, across, down = card.window
    x, y, width, height = samples[0].changes[0].box_after or (0, 0, 0, 0)
    assert left <= x
    assert top <= y
    assert left + across >= x + width
    assert top + down >= y + height
    row, column = round((y + height / 2 - top) / down * 288), round((x + width / 2 - left) / across * 384)
    middle = [picture[row, column].tolist() for picture in pictures]
    assert middle[0] == pytest.approx([90, 90, 90], abs=12)  # nothing is drawn over the empty place
    assert middle[1][2] > 180  # red: what appeared
    assert card.known == "appeared car"


def test_the_page_is_whole_and_needs_nothing_else(
    samples: list[Sample], tmp_path: Path, stubborn: Stubborn
) -> None:
    out = tmp_path / "page.html"
    shown, measured = make_gallery(
        samples, stubborn, out, source="toys, val", truth=True, number=6, progress=lambda *_: None
    )
    page = out.read_text()
    assert shown == 6
    assert measured is not None
    assert page.count("<article") == 6
    assert not re.search(r"https?:|<script|<link|url\(|@import", page)
    assert "A &lt;b&gt;car&lt;/b&gt; has appeared." in page
    assert "<b>" not in page
    assert len(re.findall(r'class="card (right|wrong)"', page)) == 6
    assert f"expected calibration error {measured.reliability.ece:.3f}" in page
    assert "9 of toys, val; cameras street, yard" in page
    for source in re.findall(r'src="data:image/webp;base64,([^"]+)"', page):
        assert base64.b64decode(source)[8:12] == b"WEBP"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_nothing_told(samples: list[Sample], tmp_path: Path, stubborn: Stubborn) -> None:
    same = [replace(s, changes=(), after=s.before) for s in samples[:2]]
    shown, measured = make_gallery(same, stubborn, tmp_path / "p.html", source="", truth=True)
    assert shown == 0
    assert measured is not None
    assert "Nothing was narrated." in (tmp_path / "p.html").read_text()


def test_own_pictures_have_no_verdict(sample_folder: Path, tmp_path: Path, stubborn: Stubborn) -> None:
    lines = [{"id": k, "before": f"{sample_folder}/val00{k}.png", "after": f"val00{k}_2.png"} for k in (0, 3)]
    (sample_folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    pairs = read_pairs(sample_folder / "pairs.jsonl")
    out = tmp_path / "own.html"
    shown, measured = make_gallery(pairs, stubborn, out, source="pairs.jsonl", truth=False)
    assert (shown, measured) == (2, None)
    assert 'class="verdict"' not in out.read_text()


def test_wrong_input_is_named(samples: Sequence[Sample], tmp_path: Path, stubborn: Stubborn) -> None:
    with pytest.raises(SampleError, match="street, yard"):
        of_cameras(samples, ["attic"])
    assert len(of_cameras(samples, ["yard"])) == 4
    with pytest.raises(SampleError, match="cannot be read"):
        read_pairs(tmp_path / "absent.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(SampleError, match=r"bad\.jsonl:1"):
        read_pairs(tmp_path / "bad.jsonl")
    with pytest.raises(SampleError, match="absent"):
        tell([replace(samples[0], after=tmp_path / "absent.png")], stubborn, truth=True)
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((20, 20, 3), np.uint8))
    with pytest.raises(SampleError, match="differ in size"):
        tell([replace(samples[0], after=tmp_path / "small.png")], stubborn, truth=True)
    with pytest.raises(SampleError, match="cannot be written"):
        make_gallery(samples[:1], stubborn, tmp_path / "no" / "p.html", source="", truth=True)
