"""DDLA, and the baselines of its paper: captioners of whole pairs, and nearest neighbours."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from sklearn.neighbors import NearestNeighbors

from models.captioner import DescribeOptions
from models.papers.captioner import PairBatch, stories
from models.papers.ddla import DDLA, MASK_FLOOR, CaptMasked, CaptMulti, Nearest, NearestMulti, project_masks
from models.papers.vocabulary import BOS, EOS, PAD

PLACES = [[(20, 30, 40, 50), (120, 140, 30, 30), (150, 20, 60, 40)], [(60, 60, 50, 30), (10, 150, 40, 40)]]
TOLD = [
    ["a red car has appeared", "the blue person is gone on the left"],
    ["nothing has changed", "a bottle"],
]
STORIES = [["a red car", "the blue person is gone"], ["a bottle has moved"], ["nothing has changed"]]
SIZES = {"features": 12, "words": 10, "hidden": 16, "attention": 8}


@pytest.fixture
def ddla(vocabulary, encoder) -> DDLA:
    torch.manual_seed(5)
    captioner = DDLA(vocabulary, encoder, **SIZES)
    torch.nn.init.normal_(captioner.prior_weights)
    captioner.fit_scaling(torch.rand(20, 4))
    return captioner.eval()


def stepwise(captioner: DDLA, pairs: PairBatch, sentence: list[int]) -> dict[tuple[int, int], float]:
    """log P(S | z = k, X) word by word through `step`, as decoding goes, for every pair and cluster."""
    state = captioner.encode(pairs)
    total, last = torch.zeros(len(state)), torch.full((len(state),), BOS)
    for token in sentence:
        log_probs, state = captioner.step(last, state)
        assert torch.allclose(log_probs.exp().sum(1), torch.ones(len(state)), atol=1e-5)
        total, last = total + log_probs[:, token], torch.full((len(state),), token)
    places = zip(state.pair.tolist(), state.cluster.tolist(), strict=True)
    return dict(zip(places, total.tolist(), strict=True))


@torch.no_grad()
def test_a_pair_without_clusters_does_not_thin_the_loss(ddla, make_pairs):
    words = ddla.vocabulary.batch([*TOLD, ["nothing has changed"]])
    alone = ddla.loss(make_pairs(PLACES), words[:2])
    torch.testing.assert_close(ddla.loss(make_pairs([*PLACES, []]), words), alone)


@torch.no_grad()
def test_loss_is_equation_1_enumerated(ddla, make_pairs):
    pairs = make_pairs(PLACES)
    description = 0.0
    for b, sentences in enumerate(TOLD):
        prior = ddla.log_prior(pairs)[b].exp().tolist()
        each = [stepwise(ddla, pairs, ddla.vocabulary.encode(s)) for s in sentences]
        ks = range(len(PLACES[b]))
        brute = sum(
            math.prod(prior[k] * math.exp(each[i][b, k]) for i, k in enumerate(z))
            for z in itertools.product(ks, repeat=len(sentences))
        )
        description += math.log(brute)
    assert float(ddla.loss(pairs, ddla.vocabulary.batch(TOLD))) == pytest.approx(-description / 2, rel=1e-4)


@torch.no_grad()
def test_prior_is_log_linear_in_the_four_features(ddla, make_pairs):
    pairs = make_pairs(PLACES)
    log_prior = ddla.log_prior(pairs)
    assert log_prior[1, 2] == -math.inf
    assert torch.allclose(log_prior.exp().sum(1), torch.ones(2))
    weights = []
    for _, _, w, h in PLACES[1]:
        g = torch.tensor([h / 224, w / 224, h * w / 224**2, w * h / 224**2])
        standard = (g - ddla.scale_mean) / ddla.scale_std
        weights.append(math.exp(float(standard @ ddla.prior_weights)))
    assert log_prior[1, :2].exp().tolist() == pytest.approx([w / sum(weights) for w in weights], rel=1e-4)
    scores = ddla.salience(pairs.features()[1, :2].numpy())
    assert scores.shape == (2,)
    assert scores[0] - scores[1] == pytest.approx(math.log(weights[0] / weights[1]), rel=1e-3)
    assert ddla.salience(pairs.features()[0, :0].numpy()).shape == (0,)


@torch.no_grad()
def test_the_uniform_prior_draws_the_cluster_of_a_single_sentence(vocabulary, encoder, make_pairs):
    captioner = DDLA(vocabulary, encoder, prior="uniform", **SIZES)
    places = [[(6 * i, 30, 40, 50), (120, 140, 30, 3 * i + 1), (150, 20, 60, 40)] for i in range(30)]
    pairs = make_pairs(places)
    one = DescribeOptions(sentences=1)
    rows = captioner.select_rows(captioner.encode(pairs), pairs, one)
    assert (rows // 3).tolist() == list(range(30)), "one row of each pair"
    drawn = (rows % 3).bincount(minlength=3)
    assert drawn.min() >= 4, "each cluster now and then"
    alone = make_pairs(places[7:8])
    assert captioner.select_rows(captioner.encode(alone), alone, one).tolist() == [rows[7] % 3]


@torch.no_grad()
def test_alignment_is_the_best_cluster(ddla, make_pairs):
    pairs = make_pairs(PLACES)
    told = [[*TOLD[0]], TOLD[1][:1]]
    aligned = ddla.alignment(pairs, ddla.vocabulary.batch(told))
    assert aligned[1, 1] == -1
    none = make_pairs([[]])
    cut = {name: getattr(none, name)[:, :0] for name in ("masks", "boxes", "active", "valid")}
    none = replace(none, **cut)
    assert ddla.alignment(none, ddla.vocabulary.batch([["a car"]])).tolist() == [[-1]]
    log_prior = ddla.log_prior(pairs)
    for b, sentences in enumerate(told):
        for t, sentence in enumerate(sentences):
            each = stepwise(ddla, pairs, ddla.vocabulary.encode(sentence))
            joint = [float(log_prior[b, k]) + each[b, k] for k in range(len(PLACES[b]))]
            assert int(aligned[b, t]) == joint.index(max(joint))


@torch.no_grad()
def test_attention_sees_the_cluster_only(ddla, make_pairs):
    pairs = make_pairs(PLACES)
    seen = project_masks(pairs.masks[0, 0], ddla.smoothing) > 1e-4
    outside = (~seen).nonzero()
    inside = seen.nonzero()
    # Two cells change places, so that the mean, from which the first state comes, stays.
    for cells, same in (((outside[0], outside[-1]), True), ((inside[0], inside[len(inside) // 2]), False)):
        (r, c), (s, d) = cells
        after = pairs.maps[1].clone()
        after[:, :, r, c], after[:, :, s, d] = pairs.maps[1][:, :, s, d], pairs.maps[1][:, :, r, c]
        swapped = replace(pairs, maps=(pairs.maps[0], after))
        assert not torch.equal(after, pairs.maps[1])
        first, second = (stepwise(ddla, p, [5, EOS])[0, 0] for p in (pairs, swapped))
        assert (abs(first - second) < 1e-5) is same


def pyramid(mask: np.ndarray, smoothing: float) -> np.ndarray:
    """scikit-image's pyramid_reduce, four times, on the smoothed mask."""
    image = gaussian_filter(mask.astype(np.float64), smoothing, mode="reflect", truncate=4.0)
    for _ in range(4):
        image = gaussian_filter(image, 2 * 2 / 6, mode="reflect", truncate=4.0)
        image = image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2).mean(axis=(1, 3))
    return image


@pytest.mark.parametrize("smoothing", [1.0, 2.0, 5.0])
def test_masks_are_projected_by_the_pyramid(smoothing):
    masks = np.random.default_rng(3).random((4, 224, 224)) < 0.02
    masks[0, :30, 200:] = True  # at a corner, where the mirrored edge counts
    projected = project_masks(torch.from_numpy(masks), smoothing).numpy()
    assert projected.shape == (4, 14, 14)
    np.testing.assert_allclose(projected, [pyramid(m, smoothing) for m in masks], atol=1e-6)
    large = torch.from_numpy(masks).repeat_interleave(2, 1).repeat_interleave(4, 2)
    np.testing.assert_allclose(project_masks(large, smoothing).numpy(), projected, atol=1e-6)


@torch.no_grad()
def test_the_mask_is_the_union_of_all_clusters(vocabulary, encoder, make_pairs):
    captioner = CaptMasked(vocabulary, encoder, **SIZES).eval()
    pairs = make_pairs([PLACES[0][:2], PLACES[1][:1], []])
    pairs.masks[1, 1] = True  # padding
    state = captioner.encode(pairs)
    keys, _, log_weights = state.pictures
    matched = torch.tanh(keys + captioner.query(state.memory[0])[:, None, None, :])
    weights = (captioner.score(matched)[..., 0] + log_weights.unsqueeze(1)).softmax(dim=2)
    for b, clusters in enumerate((slice(0, 2), slice(0, 1))):
        union = project_masks(pairs.masks[b, clusters].any(dim=0), captioner.options.smoothing).flatten()
        open_cells = union > MASK_FLOOR
        assert 0 < open_cells.sum() < 196
        assert torch.equal(weights[b] > 0, open_cells.expand(2, -1))
    assert (weights[2] > 0).all(), "a pair without clusters is seen unmasked"


def test_a_story_is_its_sentences_in_a_row(vocabulary):
    tokens = vocabulary.batch([*STORIES, []])
    joined = stories(tokens)
    first, second = (vocabulary.encode(s) for s in STORIES[0])
    assert joined.shape == (4, 1, len(first) + len(second))
    assert joined[0, 0].tolist() == [*first[:-1], BOS, *second]
    assert joined[1, 0].tolist() == [*vocabulary.encode(STORIES[1][0]), *[PAD] * 5]
    assert (joined[3] == PAD).all()
    # As many tokens as before, so that perplexities per token compare.
    assert (joined != PAD).sum() == (tokens != PAD).sum()


@pytest.mark.slow
def test_a_story_is_told_without_being_given_its_length(vocabulary, encoder, make_pairs):
    torch.manual_seed(2)
    captioner = CaptMulti(vocabulary, encoder, features=24, words=16, hidden=32, attention=16, dropout=0.0)
    places = [[(20, 30, 40, 50), (150, 20, 60, 40)], [(60, 60, 50, 30)], []]
    pairs, sentences = make_pairs(places, seed=3), vocabulary.batch(STORIES)
    optimiser = torch.optim.Adam(captioner.parameters(), lr=0.01)
    expected = [["A red car.", "The blue person is gone."], ["A bottle has moved."], []]
    for step in range(1, 251):  # as long as it needs
        optimiser.zero_grad()
        captioner.loss(pairs, sentences).backward()
        optimiser.step()
        if step % 10 == 0:
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


RANDOM = np.random.default_rng(3)
TWELVE = [[tuple(int(v) for v in (*RANDOM.integers(0, 150, 2), 40, 50))] for _ in range(12)]
KNOWN = [*STORIES[:2], [], STORIES[2]] * 3


@pytest.mark.parametrize("pool", [1, 2, 14])
def test_the_nearest_is_scikit_learns(vocabulary, encoder, make_pairs, pool):
    captioner = Nearest(vocabulary, encoder, pool=pool)
    known, asked = make_pairs(TWELVE, seed=1), make_pairs(TWELVE[::-1], seed=2)
    told = [[f"{'a ' * (i + 1)}car"] for i in range(12)]
    captioner.memorise([(known, vocabulary.batch(told))])
    search = NearestNeighbors(n_neighbors=1).fit(captioner.pair_features(known).numpy())
    expected = search.kneighbors(captioner.pair_features(asked).numpy(), return_distance=False)[:, 0]
    assert len(set(expected.tolist())) >= 3
    texts = [told[0].text for told in captioner.describe(asked)]
    assert texts == [f"{('a ' * (i + 1)).capitalize()}car." for i in expected]


def test_of_a_pair_that_it_knows_it_tells_the_annotation(vocabulary, encoder, make_pairs):
    pairs, sentences = make_pairs(TWELVE), vocabulary.batch(KNOWN)
    captioner = NearestMulti(vocabulary, encoder, pool=14)
    with pytest.raises(ValueError, match="nothing is memorised yet"):
        captioner.describe(pairs)
    captioner.memorise([(pairs, sentences)])
    assert captioner.memory.shape == (9, 16 * 196), "a pair without sentences is of no use"
    described = captioner.describe(pairs, DescribeOptions(sentences=9))
    texts = [[s.text for s in described[k]] for k in (0, 1, 3)]
    assert texts == [["A red car.", "The blue person is gone."], ["A bottle has moved."], []]
    log_p = captioner.log_likelihood(pairs, sentences)
    assert torch.equal(log_p[[0, 1, 3]], torch.zeros(3, 2))
    wrong = captioner.log_likelihood(pairs, sentences.roll(1, dims=0))
    assert (wrong[0] < -1e3).any()
