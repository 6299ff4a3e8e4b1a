import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from models.captioner import DescribeOptions, Sentence
from models.papers.captioner import PairBatch
from models.papers.vocabulary import PAD, Vocabulary
from pipeline.changes import ChangeOptions
from train.papers.batches import Split, load_split
from train.papers.evaluation import SILENCE, evaluate, likelihood, perplexity, silence_of, single_sentences
from train.papers.results import HUMAN, trivial_rows


class Oracle:
    """Says what it is told to, by position in the split; its words have probability 1/4 each."""

    name, device, whole, joined = "oracle", "cpu", False, False

    def __init__(self, split: Split, says: Callable[[int], list[str]], aligned: int = 0) -> None:
        self._split, self._says, self._aligned = split, says, aligned
        self.vocabulary = Vocabulary.build([s for told in split.sentences for s in told], 1)

    def eval(self) -> None:
        pass

    def _position(self, maps: Tensor) -> int:
        seen = (i for i, clusters in enumerate(self._split.features.counts) if clusters)
        return next(i for i in seen if torch.equal(self._split.features.batch([i]).maps[1][0], maps))

    def describe(self, pairs: PairBatch, options: DescribeOptions) -> list[list[Sentence]]:
        told = [self._says(self._position(m)) for m in pairs.maps[1]]
        return [[Sentence(t, "", "", None, 1.0, 1.0) for t in texts[: options.sentences]] for texts in told]

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        return -math.log(4) * (sentences != PAD).sum(dim=2)

    def alignment(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        return torch.full(sentences.shape[:2], self._aligned)


@pytest.fixture
def split(make_samples, toy_encoder, tmp_path) -> Split:
    """Six pairs; the second is annotated twice, nothing differs in the last."""
    folder = make_samples(train=1, val=6)
    entries = json.loads((folder / "val.json").read_text())
    entries[0]["sentences"].append("a dog is gone")
    entries.insert(2, {"img_id": entries[1]["img_id"], "sentences": ["the red car has left"]})
    entries[-1].update(sentences=["nothing has changed"], changes=[])
    (folder / "val.json").write_text(json.dumps(entries))
    (folder / "val005_2.png").write_bytes((folder / "val005.png").read_bytes())
    return load_split(folder, "val", toy_encoder, ChangeOptions(eps=3.0), cache=tmp_path / "c")


def test_a_captioner_that_is_always_right(split):
    right = evaluate(Oracle(split, lambda i: list(split.samples[i].sentences)), split)
    truth = right.figures["truth"]
    assert truth.pop("pairs") == 5
    assert set(truth.values()) == {1}
    assert truth.keys() >= {"type", "polarity", "all", "no_change_recall"}
    assert right.figures["single"]["bleu"][0] > 0.9
    assert right.figures["single"]["pairs"] == 6
    assert right.figures["perplexity"] == pytest.approx(4)
    assert right.figures["without_clusters"] == 1
    assert right.figures["length_ratio"] == pytest.approx(1, abs=0.1)
    rows = trivial_rows(split.samples, split.sentences)
    assert next(iter(rows)) == "constant"
    assert rows[HUMAN]["pairs"] == 1
    assert json.loads(json.dumps(right.figures))["truth"]["all"] == 1


def test_wrong_words_are_told_apart(split):
    def says(i: int) -> list[str]:
        return [
            ["a red car on the left has disappeared"],  # polarity
            ["the red truck on the left has disappeared"],  # object
            ["the red car on the right has moved"],  # place
            ["the blue car on the left has appeared"],
            [],
            [],
        ][i]

    # "a dog is gone" makes the first type right, but not its polarity.
    claimed = {"pairs": 4, "type": 1, "polarity": 1 / 2, "object": 3 / 4, "place": 3 / 4, "all": 1 / 4}
    silent = {"no_change_precision": 1 / 2, "no_change_recall": 1}
    assert evaluate(Oracle(split, says), split).figures["truth"] == claimed | silent


def test_silence_is_scored_as_the_sentence_it_stands_for(split):
    silent = Oracle(split, lambda _: [])
    assert single_sentences(silent, split) == [SILENCE] * 6
    assert evaluate(silent, split).figures["truth"]["pairs"] == 0
    said = [["nothing has changed", "a car is gone"], ["no change"], ["Nothing has changed"], ["a red car"]]
    assert single_sentences(silent, split, silence=silence_of(said)) == ["nothing has changed"] * 6
    assert silence_of([["a car is gone"]]) == SILENCE


def test_alignment_is_judged_where_there_is_a_choice(split):
    moved = [i for i in range(6) if split.features.counts[i] == 2]
    assert moved == [2]
    found = [evaluate(Oracle(split, lambda _: [], aligned=k), split).figures["alignment"] for k in (0, 1)]
    assert all(f is not None and (f["sentences"], f["chance"]) == (1, 0.5) for f in found)
    # Either cluster overlaps one of the two boxes of what moved; the larger overlap is the right one.
    assert sorted(f["precision"] for f in found if f) == [0, 1]


def test_perplexities_are_of_the_same_sentences(split):
    """Of a captioner of whole pairs, too: nothing differs in the last, about which DDLA cannot be asked."""
    every = tuple((k, a) for k, sample in enumerate(split.samples) for a in sample.annotations)
    whole = replace(split, annotations=every, whole=True)
    sees_all = Oracle(whole, lambda _: [])
    sees_all.whole = True
    nats, tokens = likelihood(Oracle(split, lambda _: []), split)
    others, other_tokens = likelihood(sees_all, whole)
    assert tokens.tolist() == other_tokens.tolist()
    assert (tokens > 0).tolist() == [True] * 5 + [False]
    assert others == pytest.approx(nats)
    assert nats == pytest.approx(tokens * math.log(4))
    assert perplexity(nats, tokens) == pytest.approx(4)
