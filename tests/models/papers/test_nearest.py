from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from models import load_captioner
from models.captioner import DescribeOptions
from models.checkpoint import save
from models.encoders.encoder import Encoder
from models.papers.ddla import Nearest, NearestMulti
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import Vocabulary

MakePairs = Callable[..., PairBatch]
RANDOM = np.random.default_rng(3)
PLACES = [[tuple(int(v) for v in (*RANDOM.integers(0, 150, 2), 40, 50))] for _ in range(12)]
TOLD = [["a red car", "the blue person is gone"], ["a bottle has moved"], [], ["nothing has changed"]] * 3
WHOLE = DescribeOptions(sentences=9)


@pytest.mark.parametrize("pool", [1, 2, 14])
def test_the_nearest_is_scikit_learns(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, pool: int
) -> None:
    captioner = Nearest(vocabulary, encoder, pool=pool)
    known, asked = make_pairs(PLACES, seed=1), make_pairs(PLACES[::-1], seed=2)
    told = [[f"{'a ' * (i + 1)}car"] for i in range(12)]
    captioner.memorise([(known, vocabulary.batch(told))])
    search = NearestNeighbors(n_neighbors=1).fit(captioner.pair_features(known).numpy())
    expected = search.kneighbors(captioner.pair_features(asked).numpy(), return_distance=False)[:, 0]
    assert len(set(expected.tolist())) >= 3
    texts = [told[0].text for told in captioner.describe(asked)]
    assert texts == [f"{('a ' * (i + 1)).capitalize()}car." for i in expected]


def test_of_a_pair_that_it_knows_it_tells_the_annotation(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    pairs, sentences = make_pairs(PLACES), vocabulary.batch(TOLD)
    captioner = NearestMulti(vocabulary, encoder, pool=14)
    captioner.memorise([(pairs, sentences)])
    assert captioner.memory.shape == (9, 16 * 196), "a pair without sentences is of no use"
    described = captioner.describe(pairs, WHOLE)
    assert [s.text for s in described[0]] == ["A red car.", "The blue person is gone."]
    assert [s.text for s in described[1]] == ["A bottle has moved."]
    assert described[3] == []
    log_p = captioner.log_likelihood(pairs, sentences)
    assert torch.equal(log_p[[0, 1, 3]], torch.zeros(3, 2))
    wrong = captioner.log_likelihood(pairs, sentences.roll(1, dims=0))
    assert (wrong[0] < -1e3).any()


def test_memorising_forgets_what_was_before_and_is_saved(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, tmp_path: Path
) -> None:
    captioner = Nearest(vocabulary, encoder)
    with pytest.raises(ValueError, match="nothing is memorised yet"):
        captioner.describe(make_pairs(PLACES))
    for number in (4, 12):
        pairs = make_pairs(PLACES[:number])
        captioner.memorise([(pairs, vocabulary.batch(TOLD[:number]))])
        assert len(captioner.memory) == len(captioner.told) == number * 3 // 4
        save(captioner, tmp_path / f"{number}.safetensors")
        loaded = load_captioner(tmp_path / f"{number}.safetensors", encoder=encoder)
        assert loaded.describe(pairs) == captioner.describe(pairs)
    with pytest.raises(ValueError, match="at least 1"):
        Nearest(vocabulary, encoder, pool=0)
