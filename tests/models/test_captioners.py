"""What every captioner must do."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from models import CAPTIONERS, load_captioner
from models.captioner import Captioner, DescribeOptions, Sentence
from models.papers.captioner import PairBatch
from models.papers.ddla import Nearest
from models.papers.idc_pcl import IDCPCL
from models.papers.vocabulary import BOS, PAD

ATTENDING = {"features": 24, "words": 16, "hidden": 32, "attention": 16, "dropout": 0.1}
POOLED = {"convolved": 16, "visual": 24, "words": 16, "hidden": 32, "dropout": 0.1}
DUAL = {"attention": 16, "groups": 4, "attention_dropout": 0.1, "visual": 24, "words": 16, "hidden": 32}
DUAL |= {"dropout": 0.1, "attention_weight": 1e-4}
SMALL: dict[str, dict[str, Any]] = {
    "ddla": ATTENDING,
    "nn": {"pool": 2},
    "nn-multi": {},
    "capt": ATTENDING,
    "capt-masked": ATTENDING | {"coordinates": True},
    "capt-multi": ATTENDING,
    "capt-pix-diff": POOLED,
    "capt-rep-diff": POOLED,
    "capt-att": DUAL,
    "capt-dual-att": DUAL,
    "duda": DUAL | {"entropy_weight": 1e-2},
    "spot-it": {"features": 32, "hidden": 48, "dropout": 0.05, "rotation": 2.0, "attention": 8},
    "idc-pcl": {"size": 32, "inner": 48, "heads": 2, "layers": 1, "dropout": 0.02},
}
PLACES = [
    [(20, 30, 40, 50), (120, 140, 30, 30), (150, 20, 60, 40)],
    [(60, 60, 50, 30)],
    [],
    [(10, 150, 40, 40), (90, 30, 30, 60)],
]
TOLD = [
    ["a red car has appeared on the left", "the blue person is gone"],
    ["a green bottle has moved"],
    [],
    ["a car"],
]
ALL = DescribeOptions(min_salience=0.0, min_confidence=0.0)


@pytest.fixture(params=SMALL)
def captioner(request, vocabulary, encoder, make_pairs) -> Captioner:
    torch.manual_seed(11)
    made = CAPTIONERS[request.param]()(vocabulary, encoder, **SMALL[request.param])
    made.fit_scaling(torch.rand(30, 4))
    if isinstance(made, Nearest):
        made.memorise([(make_pairs(PLACES, seed=5), vocabulary.batch(TOLD))])
    return made.eval()


def rounded(described: list[list[Sentence]]) -> list[list[tuple[Any, ...]]]:
    """Sentences up to rounding: a batch may add in another order than its singles."""

    def plain(s: Sentence) -> tuple[Any, ...]:
        box = tuple(round(v, 3) for v in s.box or ())
        return s.text, s.type, s.object, box, round(s.salience, 3), round(s.confidence, 3)

    return [[plain(s) for s in told] for told in described]


def part(pairs: PairBatch, which: slice, clusters: int | None = None) -> PairBatch:
    cut = {name: getattr(pairs, name)[which, :clusters] for name in ("masks", "boxes", "active", "valid")}
    before, after, *maps = (each[which] for each in (pairs.before, pairs.after, *pairs.maps))
    return replace(pairs, before=before, after=after, maps=tuple(maps), **cut)


def test_its_name_is_its_key():
    assert {name: captioner().name for name, captioner in CAPTIONERS.items()} == {n: n for n in CAPTIONERS}
    assert set(SMALL) == set(CAPTIONERS) - {"grounded"}, "that one writes no words of its own"


def test_sentences_are_filled_in(captioner, make_pairs):
    pairs = make_pairs(PLACES)
    described = captioner.describe(pairs, ALL)
    assert captioner.train().describe(pairs, ALL) == described, "without dropout"
    assert captioner.training
    if captioner.whole:
        assert all(len(told) <= 1 or captioner.joined for told in described)
    else:
        assert [len(told) > 0 for told in described] == [True, True, False, True]
    assert any(described)
    for b, told in enumerate(described):
        assert [s.salience for s in told] == sorted((s.salience for s in told), reverse=True)
        for s in told:
            assert s.text[0].isupper() or s.text[0].isdigit()
            assert s.text.endswith(".")
            assert "<" not in s.text
            assert 0 < s.confidence <= 1
            assert 0 < s.salience <= 1
            assert s.type != "none"
            if captioner.whole:
                assert (s.box, s.salience) == (None, 1.0)
                continue
            assert s.box in [tuple(box) for box in pairs.boxes[b].tolist()]
            assert all(0 <= v <= 1 for v in s.box)


def test_a_batch_equals_its_singles(captioner, make_pairs):
    pairs, options = make_pairs(PLACES), ALL
    singles = [captioner.describe(part(pairs, slice(b, b + 1)), options)[0] for b in range(4)]
    assert rounded(captioner.describe(pairs, options)) == rounded(singles)
    sentences = captioner.vocabulary.batch(TOLD)
    alone = [captioner.log_likelihood(part(pairs, slice(b, b + 1)), sentences[b : b + 1]) for b in range(4)]
    torch.testing.assert_close(captioner.log_likelihood(pairs, sentences), torch.cat(alone))


def test_padding_changes_nothing(captioner, make_pairs):
    pairs = make_pairs(PLACES)
    tight = part(pairs, slice(1, 2), clusters=1)
    padded = part(pairs, slice(1, 2))
    padded.masks[~padded.valid] = True  # whatever stands in the padding
    padded.boxes[~padded.valid] = 1.0
    padded.active[~padded.valid] = 1.0
    assert rounded(captioner.describe(tight, ALL)) == rounded(captioner.describe(padded, ALL))
    sentences = captioner.vocabulary.batch(TOLD[1:2])
    longer = torch.nn.functional.pad(sentences, (0, 3, 0, 2), value=PAD)
    torch.testing.assert_close(captioner.loss(tight, sentences), captioner.loss(padded, longer))


@pytest.mark.parametrize("clusters", [0, 1, 3])
def test_no_clusters_no_sentences(captioner, make_pairs, clusters):
    one = part(make_pairs([[], []]), slice(2), clusters=0)  # no clusters at all, not even padding
    shapes = {"masks": (224, 224), "boxes": (4,), "active": (), "valid": ()}
    padding = {name: getattr(one, name).new_zeros(2, clusters, *shape) for name, shape in shapes.items()}
    pairs = replace(one, **padding)
    told = [["a car"], []]
    if captioner.whole:  # it needs none
        assert rounded(captioner.describe(pairs, ALL)) == rounded(captioner.describe(one, ALL))
        sentences = captioner.vocabulary.batch(told)
        assert captioner.log_likelihood(pairs, sentences)[0, 0] < 0
        torch.testing.assert_close(captioner.loss(pairs, sentences), captioner.loss(one, sentences))
        told = [[], []]
    else:
        assert captioner.describe(pairs) == [[], []]
    captioner.train()
    loss = captioner.loss(pairs, captioner.vocabulary.batch(told))
    if not isinstance(captioner, Nearest):
        loss.backward()
    assert float(loss.detach()) == 0


def test_gradients_are_finite_beside_empty_pairs(captioner, make_pairs):
    if isinstance(captioner, Nearest):
        pytest.skip("it has no weights")
    captioner.train().loss(make_pairs(PLACES), captioner.vocabulary.batch(TOLD)).backward()
    trained = {name: p.grad for name, p in captioner.named_parameters() if p.requires_grad}
    assert all(grad is not None and torch.isfinite(grad).all() for grad in trained.values())
    assert all(grad is not None and grad.any() for grad in trained.values()), "a part that is never trained"


@torch.no_grad()
@pytest.mark.parametrize("sentence", ["a", "a red car " * 14])
def test_teacher_forcing_is_step_by_step(captioner, make_pairs, sentence):
    pairs = make_pairs([[(60, 60, 50, 30)]], labels=[["object"]])
    state, last, total = captioner.encode(pairs), BOS, 0.0
    for token in captioner.vocabulary.encode(sentence):
        log_probs, state = captioner.step(torch.tensor([last]), state)
        total, last = total + float(log_probs[0, token]), token
    forced = captioner.log_likelihood(pairs, captioner.vocabulary.batch([[sentence]]))
    assert float(forced) == pytest.approx(total, rel=1e-4)


def test_images_and_their_maps_give_the_same(captioner, make_pairs):
    told = [captioner.describe(make_pairs(PLACES, with_maps=w), ALL) for w in (True, False)]
    assert rounded(told[0]) == rounded(told[1])
    pairs = make_pairs(PLACES)
    halves = replace(pairs, maps=(pairs.maps[0].half(), pairs.maps[1].half()))
    sentences = captioner.vocabulary.batch(TOLD)
    torch.testing.assert_close(
        captioner.loss(halves, sentences), captioner.loss(pairs, sentences), rtol=1e-2, atol=0
    )
    with pytest.raises(ValueError, match=r"images or its maps|views, or before and after|looks at pixels"):
        captioner.describe(replace(make_pairs(PLACES), before=None, after=None, maps=None))


def test_save_and_load_give_equal_sentences(captioner, make_pairs, tmp_path):
    captioner.record = {"seed": 3, "scores": {"CIDEr": 0.4}}
    path = tmp_path / "weights" / "some.safetensors"
    sha256 = captioner.save(path)
    loaded = load_captioner(path, encoder=captioner.encoder)
    assert loaded.describe(make_pairs(PLACES), ALL) == captioner.describe(make_pairs(PLACES), ALL)
    assert (loaded.sha256, captioner.sha256) == (sha256, sha256)
    assert loaded.record == captioner.record
    assert loaded.arguments() == captioner.arguments()
    assert not loaded.training
    assert loaded.save(tmp_path / "again.safetensors") == sha256


def learnt(captioner: Captioner, pairs: PairBatch, sentences: torch.Tensor) -> None:
    """Train it until it knows these, and says them surely; longer would teach nothing."""
    slow = isinstance(captioner, IDCPCL)  # transformers do not stand large steps
    optimiser = torch.optim.Adam(captioner.parameters(), lr=0.006 if slow else 0.01)
    captioner.train()
    losses = []
    for step in range(1, 301 if slow else 151):
        loss = captioner.loss(pairs, sentences)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        if step % 10 == 0 and losses[-1] < 0.1 * losses[0] and said(captioner, pairs, sentences) == BY_HEART:
            break
    assert losses[-1] < 0.15 * losses[0]


BY_HEART = [[("appeared", "car")], [("disappeared", "person")], [("appeared", "bottle")], []]
"""Type and object of what is told; in the last pair nothing changed."""


def said(captioner: Captioner, pairs: PairBatch, sentences: torch.Tensor) -> list[list[tuple[str, str]]]:
    """Type and object of what it says of each pair, as far as it is sure."""
    if torch.exp(captioner.log_likelihood(pairs, sentences)).min() <= 0.5:
        return []
    described = captioner.describe(pairs, DescribeOptions())
    return [[(s.type, s.object) for s in each if s.confidence > 0.5] for each in described]


@pytest.mark.slow
def test_four_pairs_can_be_learned_by_heart(captioner, make_pairs):
    places = [[(20 + 30 * i, 30 + 20 * i, 30, 36)] for i in range(4)]
    told = [
        "a red car has appeared on the left",
        "the blue person is gone",
        "a green bottle has appeared",
        "nothing has changed",
    ]
    kinds = [["car"], ["person"], ["bottle"], ["object"]]
    pairs = make_pairs(places, sides=[[1], [0], [1], [1]], labels=kinds)
    sentences = captioner.vocabulary.batch([[t] for t in told])
    if isinstance(captioner, Nearest):
        captioner.memorise([(pairs, sentences)])
    else:
        learnt(captioner, pairs, sentences)
    described = captioner.describe(pairs, DescribeOptions())
    assert [[(s.type, s.object) for s in each] for each in described] == BY_HEART
    assert described[0][0].text == "A red car has appeared on the left."
    assert all(s.confidence > 0.5 for each in described for s in each)
