"""DIRL, and what CCR and SCORER add to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import Vocabulary
from models.papers.ccr import CCR
from models.papers.dirl import DIRL, SaidSentences
from models.papers.scorer import SCORER

MakePairs = Callable[..., PairBatch]
SMALL = {"features": 24, "words": 16, "hidden": 32, "attention": 16, "dropout": 0.0}
PLACES = [[(48, 48, 32, 32)], [(160, 64, 32, 32)], []]
TOLD = [["a red car", "the blue person is gone"], ["a bottle has moved"], ["nothing has changed"]]


def told(captioner: DIRL, pairs: PairBatch) -> tuple[torch.Tensor, SaidSentences]:
    sentences = captioner.vocabulary.batch(TOLD)
    b, t = (sentences[:, :, 0] != 0).nonzero(as_tuple=True)
    tokens = sentences[b, t]
    embedded = captioner.embedded(pairs)
    unrolled = captioner.unrolled(captioner.state_of(embedded).select(b), tokens)
    return embedded, SaidSentences(pairs, b, tokens, torch.stack([seen for seen, _ in unrolled], dim=1))


@torch.no_grad()
def test_what_the_other_image_explains_is_subtracted(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    torch.manual_seed(1)
    captioner = DIRL(vocabulary, encoder, **SMALL, same_cell=40.0).eval()
    seen = captioner.unexplained(captioner.embedded(make_pairs(PLACES)))
    nothing = captioner.norm.bias.expand_as(seen)
    differs = (seen - nothing).norm(dim=3).amax(dim=2).view(3, 14, 14) > 0.1
    for row, (x, y) in enumerate([(3, 3), (10, 4)]):
        assert differs[row, y : y + 2, x : x + 2].all()
        assert differs[row].sum() == 4, "and nowhere else"
    assert not differs[2].any()
    swapped = captioner.embedded(make_pairs(PLACES)).flip(2)
    torch.testing.assert_close(captioner.unexplained(swapped), seen.flip(2))


@torch.no_grad()
def test_channels_say_the_same_of_both_images_and_each_its_own(
    vocabulary: Vocabulary, encoder: Encoder
) -> None:
    torch.manual_seed(2)
    captioner = DIRL(vocabulary, encoder, **SMALL, off_diagonal=0.5)
    x = torch.randn(8, 196, 6)
    same = torch.stack([x, 3 * x + 1], dim=2)  # another light
    assert float(captioner.immune(same)) == pytest.approx(0, abs=0.01)
    other = torch.stack([x, torch.randn_like(x)], dim=2)
    assert float(captioner.immune(other)) == pytest.approx(1, abs=0.05)
    alike = torch.stack([x[..., :1].expand_as(x), x[..., :1].expand_as(x)], dim=2)
    assert float(captioner.immune(alike)) == pytest.approx(0.5 * 5, abs=0.05)


@torch.no_grad()
def test_captions_that_say_the_same_are_not_wrong(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner = CCR(vocabulary, encoder, **SMALL, common=16).eval()
    pairs = make_pairs(PLACES)
    embedded, said = told(captioner, pairs)
    wrong = said.wrong()
    assert wrong.tolist() == [
        [False, False, True, True],
        [False, False, True, True],
        [True, True, False, True],
        [True, True, True, False],
    ]
    quiet = replace(said, pairs=replace(pairs, changed=torch.tensor([True, False, False])))
    assert not quiet.wrong()[2, 3]
    for layer in (captioner.of_pair, captioner.of_caption):  # nothing is seen, and nothing read
        layer.weight.zero_()
    deaf = float(captioner.further(embedded, said))
    logs = [math.log(n) for n in (3, 3, 4, 4)]
    assert deaf == pytest.approx(0.5 * sum(logs) / 4, rel=1e-4)


@torch.no_grad()
def test_the_before_frame_is_no_answer_where_something_changed(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner = SCORER(vocabulary, encoder, **SMALL).eval()
    pairs = make_pairs(PLACES)
    captioner.word_value.weight.zero_()  # the before frame as it was
    captioner.word_value.bias.zero_()
    embedded, said = told(captioner, pairs)
    changed = replace(said, pairs=replace(pairs, changed=torch.tensor([True, True, True])))
    distractor = replace(said, pairs=replace(pairs, changed=torch.tensor([True, True, False])))
    before, after = (normalize(embedded[said.pair][:, :, side].amax(dim=1), dim=1) for side in (0, 1))
    scores = before @ after.T / 0.1
    scores[0, 1] = scores[1, 0] = -torch.inf  # two sentences about one pair
    own = (before * before).sum(dim=1, keepdim=True) / 0.1
    expected = cross_entropy(torch.cat([scores, own], dim=1), torch.arange(4))
    assert float(captioner.further(embedded, changed)) == pytest.approx(0.5 * float(expected), rel=1e-4)
    own[3] = -torch.inf  # where nothing changed it is as right
    expected = cross_entropy(torch.cat([scores, own], dim=1), torch.arange(4))
    assert float(captioner.further(embedded, distractor)) == pytest.approx(0.5 * float(expected), rel=1e-4)


def test_what_is_said_learns_from_the_backward_reasoning(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    for kind, part in ((SCORER, "lstm.weight_hh"), (CCR, "read.weight_hh_l0")):
        captioner = kind(vocabulary, encoder, **SMALL)
        captioner.further(*told(captioner, make_pairs(PLACES))).backward()
        grad = captioner.get_parameter(part).grad
        assert grad is not None
        assert grad.abs().sum() > 0


@pytest.mark.parametrize("kind", [CCR, SCORER])
def test_a_temperature_divides_by_something(
    vocabulary: Vocabulary, encoder: Encoder, kind: type[DIRL]
) -> None:
    with pytest.raises(ValueError, match="temperature must be above 0"):
        kind(vocabulary, encoder, temperature=0.0)
