from collections.abc import Callable

import pytest
import torch

from models.captioner import DescribeOptions
from models.encoders.encoder import Encoder
from models.papers.captioner import stories
from models.papers.ddla import MASK_FLOOR, Capt, CaptMasked, CaptMulti, project_masks
from models.papers.decoding import State
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import BOS, PAD, Vocabulary

MakePairs = Callable[..., PairBatch]
PLACES = [[(20, 30, 40, 50), (150, 20, 60, 40)], [(60, 60, 50, 30)], []]
SIZES = {"features": 12, "words": 10, "hidden": 16, "attention": 8}
TOLD = [["a red car", "the blue person is gone"], ["a bottle has moved"], ["nothing has changed"]]


def attention(captioner: Capt, state: State) -> torch.Tensor:
    """Weights over the cells of both images before the first word, ``(N, 2, 196)``."""
    keys, _, log_weights = state.pictures
    matched = torch.tanh(keys + captioner.query(state.memory[0])[:, None, None, :])
    weights: torch.Tensor = (captioner.score(matched)[..., 0] + log_weights.unsqueeze(1)).softmax(dim=2)
    return weights


@torch.no_grad()
def test_the_mask_is_the_union_of_all_clusters(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner = CaptMasked(vocabulary, encoder, **SIZES).eval()
    pairs = make_pairs(PLACES)
    pairs.masks[1, 1] = True  # padding
    weights = attention(captioner, captioner.encode(pairs))
    torch.testing.assert_close(weights.sum(2), torch.ones(3, 2))
    for b, clusters in enumerate((slice(0, 2), slice(0, 1))):
        union = project_masks(pairs.masks[b, clusters].any(dim=0), captioner.options.smoothing).flatten()
        open_cells = union > MASK_FLOOR
        assert 0 < open_cells.sum() < 196
        assert torch.equal(weights[b] > 0, open_cells.expand(2, -1))
    assert (weights[2] > 0).all(), "a pair without clusters is seen unmasked"


def test_a_story_is_its_sentences_in_a_row(vocabulary: Vocabulary) -> None:
    tokens = vocabulary.batch([*TOLD, []])
    joined = stories(tokens)
    first, second = (vocabulary.encode(s) for s in TOLD[0])
    assert joined.shape == (4, 1, len(first) + len(second))
    assert joined[0, 0].tolist() == [*first[:-1], BOS, *second]
    assert joined[1, 0].tolist() == [*vocabulary.encode(TOLD[1][0]), *[PAD] * 5]
    assert (joined[3] == PAD).all()
    # As many tokens as before, so that perplexities per token compare.
    assert (joined != PAD).sum() == (tokens != PAD).sum()


@pytest.mark.slow
def test_a_story_is_told_without_being_given_its_length(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    torch.manual_seed(2)
    captioner = CaptMulti(vocabulary, encoder, features=24, words=16, hidden=32, attention=16, dropout=0.0)
    pairs, sentences = make_pairs(PLACES, seed=3), vocabulary.batch(TOLD)
    optimiser = torch.optim.Adam(captioner.parameters(), lr=0.01)
    expected = [["A red car.", "The blue person is gone."], ["A bottle has moved."], []]
    for step in range(1, 251):  # as long as it needs
        optimiser.zero_grad()
        captioner.loss(pairs, sentences).backward()
        optimiser.step()
        if step % 25 == 0:
            told = captioner.describe(pairs)
            surest = all(s.confidence > 0.9 for each in told for s in each)
            if surest and [[s.text for s in each] for each in told] == expected:
                break
    for options in (DescribeOptions(), DescribeOptions(sentences=1)):
        described = captioner.describe(pairs, options)
        assert [[s.text for s in told] for told in described] == expected
        assert all(s.confidence > 0.8 for told in described for s in told)
    log_p = captioner.log_likelihood(pairs, sentences)
    assert log_p.shape == (3, 2)
    assert log_p[0, 0] < 0 == log_p[0, 1]
