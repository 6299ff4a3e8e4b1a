from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import BOS, Vocabulary
from models.papers.idc_pcl import IDCPCL, IMAGE
from models.papers.transformer import Layer, sinusoids

MakePairs = Callable[..., PairBatch]
SMALL = {"size": 32, "inner": 48, "heads": 4, "layers": 2, "dropout": 0.1}
PLACES = [[(20, 30, 40, 50)], [], [(60, 60, 50, 30)]]
TOLD = [["a red car has appeared on the left"], ["nothing has changed"], ["a green bottle has moved"]]


def build(vocabulary: Vocabulary, encoder: Encoder, **arguments: object) -> IDCPCL:
    torch.manual_seed(3)
    return IDCPCL(vocabulary, encoder, **(SMALL | arguments)).eval()  # type: ignore[arg-type]


@torch.no_grad()
def test_a_layer_equals_the_published_one() -> None:
    """Pre-norm, against torch's own encoder layer with the same weights."""
    torch.manual_seed(0)
    ours = Layer(16, 4, 32, 0.0)
    theirs = torch.nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=True).eval()
    attention = theirs.self_attn
    assert attention.in_proj_weight is not None
    attention.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    attention.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    attention.out_proj.load_state_dict(ours.out.state_dict())
    theirs.linear1.load_state_dict(ours.inner[0].state_dict())
    theirs.linear2.load_state_dict(ours.inner[3].state_dict())
    theirs.norm1.load_state_dict(ours.norm.state_dict())
    theirs.norm2.load_state_dict(ours.inner_norm.state_dict())
    x, seen = torch.randn(3, 7, 16), torch.ones(1, 7, 7, dtype=torch.bool).tril()
    torch.testing.assert_close(
        ours(x, ours.kept(x), seen), theirs(x, src_mask=~seen[0]), rtol=1e-4, atol=1e-5
    )
    weights = ours.weights(x, ours.kept(x), seen)
    torch.testing.assert_close(weights.sum(2), torch.ones(3, 7))
    assert not weights[:, ~seen[0]].any()


def test_positions_are_the_papers() -> None:
    at = sinusoids(torch.tensor([0, 5]), 8)
    assert at[0].tolist() == [0, 1] * 4
    assert float(at[1, 2]) == pytest.approx(float(torch.tensor(5 / 10000 ** (2 / 8)).sin()), rel=1e-5)


def test_default_sizes_are_the_papers(vocabulary: Vocabulary, encoder: Encoder) -> None:
    captioner = IDCPCL(vocabulary, encoder)
    assert (len(captioner.single), len(captioner.pair), len(captioner.cross)) == (1, 1, 3)
    assert captioner.cross[0].inner[0].weight.shape == (2048, 512)  # type: ignore[union-attr,index]
    pairs = replace(_pairs(), maps=(torch.rand(2, 8, 14, 14), torch.rand(2, 8, 14, 14)))
    assert captioner.look(captioner.cells(pairs)).shape == (2, 100, 512)


@torch.no_grad()
def test_images_do_not_see_words_and_words_not_what_comes_after(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner, pairs = build(vocabulary, encoder), make_pairs(PLACES[:1])
    state = captioner.encode(pairs)
    first, state = captioner.step(torch.tensor([BOS]), state)
    again = captioner.step(torch.tensor([BOS]), captioner.encode(pairs))[0]
    assert torch.equal(first, again)
    words = captioner.vocabulary.encode("a red car")
    one, _ = captioner.step(torch.tensor([words[0]]), state)
    other, _ = captioner.step(torch.tensor([words[1]]), state)
    assert not torch.allclose(one, other)


@torch.no_grad()
def test_a_story_longer_than_its_room_goes_on(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner, pairs = build(vocabulary, encoder), make_pairs(PLACES[:1])
    sentence = "a red car " * 14
    state, last, total = captioner.encode(pairs), BOS, 0.0
    for token in captioner.vocabulary.encode(sentence):
        log_probs, state = captioner.step(torch.tensor([last]), state)
        total, last = total + float(log_probs[0, token]), token
    forced = captioner.log_likelihood(pairs, captioner.vocabulary.batch([[sentence]]))
    assert float(forced) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("without", ["difference_encoder", "judge"])
def test_every_row_of_the_ablation_can_be_built(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, without: str
) -> None:
    whole, part = build(vocabulary, encoder), build(vocabulary, encoder, **{without: False})
    names = {name.split(".")[0] for name, _ in whole.named_parameters()}
    lacking = names - {name.split(".")[0] for name, _ in part.named_parameters()}
    assert lacking == {"difference_encoder": {"single", "pair"}, "judge": {"judge"}}[without]
    assert part.loss(make_pairs(PLACES), vocabulary.batch(TOLD)).ndim == 0
    if without == "judge":
        with pytest.raises(ValueError, match="without a judge"):
            part.distractors(make_pairs(PLACES))


@torch.no_grad()
def test_pair_layers_that_compare_see_at_once_where_the_pictures_differ(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    cells = build(vocabulary, encoder).cells(make_pairs([[(100, 100, 60, 60)]]))
    cells[:, 1] = cells[:, 0]
    cells[:, 1, 24] += 3 * torch.randn(cells.shape[3])

    def contrast(**arguments: object) -> float:
        """How far the changed cell stands out from the others, after the difference encoder."""
        looked = build(vocabulary, encoder, dropout=0.0, pair_layers=1, **arguments).look(cells)
        before, after = (each[0, 1:] - each[0, 1:].mean(dim=0) for each in looked.split(IMAGE, dim=1))
        size = torch.cat([before, after], dim=1).norm(dim=1)
        return float(size[24] / size[torch.arange(49) != 24].max())

    assert contrast(comparing=True) > 1.2
    assert contrast(comparing=True) > contrast() + 0.2


def test_pair_layers_compare_only_what_is_there(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner = build(vocabulary, encoder, dropout=0.0, comparing=True)
    cells = captioner.cells(make_pairs([[(100, 100, 60, 60)]]))
    other = torch.stack([cells[:, 0], torch.rand_like(cells[:, 1])], dim=1)
    present = torch.tensor([[True, False]])
    alone, too = captioner.look(cells, present), captioner.look(other, present)
    torch.testing.assert_close(alone[:, :IMAGE], too[:, :IMAGE])
    alone.sum().backward()
    assert captioner.same_cell is not None
    assert captioner.same_cell.grad is not None


def test_the_judge_learns_what_a_distractor_is(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    captioner, pairs = build(vocabulary, encoder, dropout=0.0), make_pairs(PLACES)
    optimizer = torch.optim.Adam(captioner.parameters(), lr=3e-3)
    for _ in range(60):
        loss = captioner.loss(pairs, vocabulary.batch(TOLD))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (captioner.distractors(pairs) > 0.5).tolist() == [False, True, False]
    # What is known of the pairs goes before what the words say.
    with torch.no_grad():
        known = captioner.loss(
            replace(pairs, changed=torch.tensor([False, True, False])), vocabulary.batch(TOLD)
        )
    assert float(known) > float(loss.detach()) + 1


def test_a_share_of_the_words_counts(vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs) -> None:
    some, pairs = build(vocabulary, encoder, share=0.15, judge=False), make_pairs(PLACES)
    drawn = [float(some.loss(pairs, vocabulary.batch(TOLD)).detach()) for _ in range(150)]
    every = float(build(vocabulary, encoder, judge=False).loss(pairs, vocabulary.batch(TOLD)).detach())
    assert len({round(x, 4) for x in drawn}) > 5
    assert sum(drawn) / 150 == pytest.approx(every, rel=0.1)


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"size": 31}, {"heads": 3}])
def test_sizes_that_do_not_fit_are_refused(
    vocabulary: Vocabulary, encoder: Encoder, wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="must be"):
        build(vocabulary, encoder, **wrong)


def _pairs() -> PairBatch:
    return PairBatch(
        None, None, torch.zeros(2, 0, 4, 4), torch.zeros(2, 0, 4), torch.zeros(2, 0), torch.zeros(2, 0)
    )


@torch.no_grad()
def test_without_a_difference_encoder_what_was_set_by_hand_stays(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs
) -> None:
    cells = build(vocabulary, encoder).cells(make_pairs([[(100, 100, 60, 60)]]))
    cells[:, 1] = cells[:, 0]
    cells[:, 1, 24] += 3 * torch.randn(cells.shape[3])
    words = torch.full((1, 3), 5)

    def contrast(**arguments: object) -> list[float]:
        """How far the changed cell stands out after a cross-modal layer, in writing and pre-training."""
        captioner = build(
            vocabulary, encoder, dropout=0.0, layers=1, difference_encoder=False, **arguments
        ).eval()
        looked = captioner.look(cells)
        found = []
        for after in (captioner._images(looked)[1], captioner.joined(words, looked)[1]):
            halves = (each[0, 1:] - each[0, 1:].mean(dim=0) for each in after.split(IMAGE, dim=1))
            size = torch.cat(list(halves), dim=1).norm(dim=1)
            found.append(float(size[24] / size[torch.arange(49) != 24].max()))
        return found

    compared, plain = contrast(comparing=True), contrast()
    assert min(compared) > 1.1
    assert all(one > other + 0.1 for one, other in zip(compared, plain, strict=True))
