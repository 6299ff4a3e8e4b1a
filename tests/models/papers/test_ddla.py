import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from models.captioner import DescribeOptions
from models.encoders.encoder import Encoder
from models.papers.ddla import DDLA, marginal_log_likelihood, project_masks
from models.papers.pair_batch import PairBatch
from models.papers.vocabulary import BOS, EOS, Vocabulary

MakePairs = Callable[..., PairBatch]
PLACES = [[(20, 30, 40, 50), (120, 140, 30, 30), (150, 20, 60, 40)], [(60, 60, 50, 30), (10, 150, 40, 40)]]
TOLD = [
    ["a red car has appeared", "the blue person is gone on the left"],
    ["nothing has changed", "a bottle"],
]


@pytest.fixture
def ddla(vocabulary: Vocabulary, encoder: Encoder) -> DDLA:
    torch.manual_seed(5)
    captioner = DDLA(vocabulary, encoder, features=12, words=10, hidden=16, attention=8)
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


@pytest.mark.parametrize(("clusters", "sentences"), [(1, 1), (2, 3), (4, 3), (3, 4)])
def test_marginal_is_the_sum_over_all_alignments(clusters: int, sentences: int) -> None:
    random = torch.Generator().manual_seed(clusters)
    log_prior = torch.randn(1, clusters, generator=random, dtype=torch.float64).log_softmax(1)
    likelihood = torch.randn(1, sentences, clusters, generator=random, dtype=torch.float64) - 3
    brute = sum(
        math.exp(sum(float(log_prior[0, k] + likelihood[0, i, k]) for i, k in enumerate(z)))
        for z in itertools.product(range(clusters), repeat=sentences)
    )
    assert float(marginal_log_likelihood(log_prior, likelihood).sum()) == pytest.approx(math.log(brute))


@torch.no_grad()
def test_a_pair_without_clusters_does_not_thin_the_loss(ddla: DDLA, make_pairs: MakePairs) -> None:
    words = ddla.vocabulary.batch([*TOLD, ["nothing has changed"]])
    alone = ddla.loss(make_pairs(PLACES), words[:2])
    torch.testing.assert_close(ddla.loss(make_pairs([*PLACES, []]), words), alone)


@torch.no_grad()
def test_loss_is_equation_1_enumerated(ddla: DDLA, make_pairs: MakePairs) -> None:
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
def test_prior_is_log_linear_in_the_four_features(ddla: DDLA, make_pairs: MakePairs) -> None:
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
def test_the_uniform_prior_draws_the_cluster_of_a_single_sentence(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner = DDLA(vocabulary, encoder, prior="uniform", features=12, words=10, hidden=16, attention=8)
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
def test_alignment_is_the_best_cluster(ddla: DDLA, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)
    told = [[*TOLD[0]], TOLD[1][:1]]
    aligned = ddla.alignment(pairs, ddla.vocabulary.batch(told))
    assert aligned[1, 1] == -1
    none = make_pairs([[]])
    none = replace(
        none,
        masks=none.masks[:, :0],
        boxes=none.boxes[:, :0],
        active=none.active[:, :0],
        valid=none.valid[:, :0],
    )
    assert ddla.alignment(none, ddla.vocabulary.batch([["a car"]])).tolist() == [[-1]]
    log_prior = ddla.log_prior(pairs)
    for b, sentences in enumerate(told):
        for t, sentence in enumerate(sentences):
            each = stepwise(ddla, pairs, ddla.vocabulary.encode(sentence))
            joint = [float(log_prior[b, k]) + each[b, k] for k in range(len(PLACES[b]))]
            assert int(aligned[b, t]) == joint.index(max(joint))


@torch.no_grad()
def test_attention_sees_the_cluster_only(ddla: DDLA, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)
    assert pairs.maps is not None
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
