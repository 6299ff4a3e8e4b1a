import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import conv2d, group_norm

from models.captioner import PairBatch
from models.encoders.encoder import Encoder
from models.language.vocabulary import BOS, PAD, Vocabulary
from models.papers.change_captioner import ChangeCaptioner
from models.papers.duda import DUDA
from models.papers.duda_ablations import CaptAtt, CaptDualAtt, CaptPixDiff, CaptRepDiff
from models.papers.masks import project_masks

MakePairs = Callable[..., PairBatch]
PLACES = [[(20, 30, 40, 50)], [(60, 60, 50, 30)], []]
TOLD = [["a red car", "the blue person is gone"], ["a bottle has moved"], ["nothing has changed"]]
SMALL = {"attention": 16, "groups": 4, "visual": 24, "words": 16, "hidden": 32}


class Wide(torch.nn.Module):
    """As much of DUDA's own encoder as sizes ask for."""

    name, channels, image_size, sha256 = "wide", 1024, (224, 224), ""


@pytest.fixture
def duda(vocabulary: Vocabulary, encoder: Encoder) -> DUDA:
    torch.manual_seed(1)
    return DUDA(vocabulary, encoder, **SMALL).eval()


def test_the_sizes_are_the_papers(vocabulary: Vocabulary) -> None:
    captioner = DUDA(vocabulary, Wide())  # type: ignore[arg-type]
    shapes = {name: tuple(p.shape) for name, p in captioner.named_parameters()}
    assert shapes["attention.layers.0.weight"] == (128, 2052, 1, 1)
    assert shapes["attention.layers.4.weight"] == (1, 128, 1, 1)
    assert shapes["embed_visual.0.weight"] == (512, 3078)
    assert shapes["choosing.weight_ih"] == (4 * 512, 512 + 512)
    assert shapes["choice.weight"] == (3, 512)
    assert shapes["telling.weight_ih"] == (4 * 512, 300 + 1026)
    assert captioner.arguments()["attention_weight"] == 2.5e-3
    assert captioner.arguments()["entropy_weight"] == 1e-4
    assert captioner.attention.layers[1].num_groups == 32
    assert captioner.attention.layers[2].p == 0.5


@torch.no_grad()
def test_what_it_sees_is_the_papers_arithmetic(duda: DUDA, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)
    assert pairs.maps is not None
    visual, parts, attention = duda.encode(pairs).pictures
    x = (torch.arange(14) + 0.5) / 14 * 2 - 1
    at = torch.stack([x.expand(14, 14), x.unsqueeze(1).expand(14, 14)]).expand(3, -1, -1, -1)
    before, after = (torch.cat([each, at], dim=1) for each in pairs.maps)
    first, norm, last = (duda.attention.layers[k] for k in (0, 1, 4))
    sums = []
    for k, cells in enumerate((before, after)):
        seen = conv2d(torch.cat([cells, after - before], dim=1), first.weight, first.bias)
        seen = torch.relu(group_norm(seen, 4, norm.weight, norm.bias))
        weights = torch.sigmoid(conv2d(seen, last.weight, last.bias))
        torch.testing.assert_close(attention[:, k], weights.flatten(1))
        sums.append((cells * weights).sum(dim=(2, 3)))
    expected = [sums[0], sums[1] - sums[0], sums[1]]
    torch.testing.assert_close(parts, torch.stack(expected, dim=1), rtol=1e-4, atol=1e-3)
    linear = duda.embed_visual[0]
    expected_visual = torch.relu(torch.cat(expected, dim=1) @ linear.weight.T + linear.bias)
    torch.testing.assert_close(visual, expected_visual, rtol=1e-4, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("kind", [DUDA, CaptAtt, CaptDualAtt])
def test_the_sums_can_be_scaled(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, kind: type[DUDA | CaptAtt]
) -> None:
    plain, scaled = (kind(vocabulary, encoder, **SMALL, scale=s).eval() for s in (1.0, 0.25))
    scaled.load_state_dict(plain.state_dict())
    pairs = make_pairs(PLACES)
    linear = plain.embed_visual[0]
    assert isinstance(linear, torch.nn.Linear)
    linear.bias.zero_()
    scaled.embed_visual.load_state_dict(plain.embed_visual.state_dict())
    whole, quarter = (c.encode(pairs).pictures[0] for c in (plain, scaled))
    torch.testing.assert_close(quarter, whole / 4)


@torch.no_grad()
def test_it_looks_where_it_chooses(duda: DUDA, make_pairs: MakePairs) -> None:
    """The word depends on the image that the first LSTM chose, and on no other."""
    state = duda.encode(make_pairs(PLACES))
    duda.choice.weight.zero_()
    duda.choice.bias.copy_(torch.tensor([-40.0, 40.0, -40.0]))
    words = torch.full((3,), BOS)
    log_probs, after = duda.step(words, state)
    torch.testing.assert_close(after.memory[-1], torch.tensor([[0.0, 1.0, 0.0]]).expand(3, 3))
    visual, parts, attention = state.pictures
    for changed, same in ((0, True), (1, False), (2, True)):
        others = parts.clone()
        others[:, changed] += 3.0
        again, _ = duda.step(words, replace(state, pictures=(visual, others, attention)))
        assert torch.allclose(again, log_probs, atol=1e-6) is same


@torch.no_grad()
def test_the_loss_is_half_changed_half_distractor(duda: DUDA, make_pairs: MakePairs) -> None:
    pairs, sentences = make_pairs(PLACES), duda.vocabulary.batch(TOLD)
    log_p = duda.log_likelihood(pairs, sentences)
    tokens = (sentences != PAD).sum(dim=2)
    state = duda.encode(pairs)

    def further(changed: list[int]) -> float:
        """The attention's sum, and the entropy's over a sentence's words, of changed pairs only."""
        size = float(state.pictures[2][changed].sum()) / (2 * len(changed))
        entropies = []
        for b, t in (sentences[changed][:, :, 0] != PAD).nonzero().tolist():
            row, last, entropy = state.select(torch.tensor([changed[b]])), BOS, 0.0
            for token in sentences[changed[b], t][sentences[changed[b], t] != PAD].tolist():
                _, row = duda.step(torch.tensor([last]), row)
                chosen, last = row.memory[-1][0], token
                entropy -= float((chosen * chosen.log()).sum())
            entropies.append(entropy)
        return 2.5e-3 * size - 1e-4 * sum(entropies) / len(entropies)

    told = [float(-log_p[rows].sum() / tokens[rows].sum()) for rows in (slice(0, 2), slice(2, 3))]
    marked = replace(pairs, changed=torch.tensor([True, True, False]))
    expected = 0.5 * told[0] + 0.5 * told[1] + further([0, 1])
    assert float(duda.loss(marked, sentences)) == pytest.approx(expected, abs=2e-5)
    alike = float(-log_p.sum() / tokens.sum())
    for changed, more in ((None, further([0, 1, 2])), (torch.zeros(3).bool(), 0.0)):
        loss = duda.loss(replace(pairs, changed=changed), sentences)
        assert float(loss) == pytest.approx(alike + more, abs=2e-5), "pairs of one kind only count whole"
    duda.changed_weight = 0.9
    expected = 0.9 * told[0] + 0.1 * told[1] + further([0, 1])
    assert float(duda.loss(marked, sentences)) == pytest.approx(expected, abs=2e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", [DUDA, CaptDualAtt, CaptRepDiff])
def test_words_are_rectified_and_the_picture_is_dropped_out_anew_at_every_word(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, kind: type[DUDA | CaptAtt]
) -> None:
    torch.manual_seed(3)
    small = SMALL if kind is not CaptRepDiff else {"convolved": 8, "visual": 24, "words": 16, "hidden": 32}
    captioner = kind(vocabulary, encoder, **small, dropout=0.5).eval()
    state = captioner.encode(make_pairs(PLACES))
    words = torch.full((3,), BOS)
    expected, _ = captioner.step(words, state)
    captioner.embed_word.weight.clamp_(min=0.0)
    assert torch.equal(captioner.step(words, state)[0], expected)
    captioner.embed_word.weight.zero_()  # what is left to drop: the picture
    captioner.next_word.weight.copy_(torch.rand_like(captioner.next_word.weight))
    cell = captioner.choosing if isinstance(captioner, DUDA) else captioner.telling
    captioner.dropout.register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    captioner.train()
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for _ in range(2):
        captioner.step(words, state)
    pictures = [(given, out) for given, out in seen if torch.equal(given, state.pictures[0])]
    assert len(pictures) == 2, "of each word"
    assert not torch.equal(pictures[0][1], pictures[1][1])
    assert cell.weight_ih.shape[1] > 24


@pytest.mark.parametrize("kind", [DUDA, CaptDualAtt, CaptAtt])
def test_the_attention_is_kept_small(
    vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs, kind: type[DUDA | CaptAtt]
) -> None:
    torch.manual_seed(0)
    captioner = kind(vocabulary, encoder, **SMALL, attention_weight=1.0)
    pairs, sentences = make_pairs(PLACES), vocabulary.batch(TOLD)
    optimiser = torch.optim.Adam(captioner.parameters(), lr=0.01)
    sizes = []
    for _ in range(12):
        optimiser.zero_grad()
        captioner.loss(pairs, sentences).backward()
        optimiser.step()
        sizes.append(float(captioner.encode(pairs).pictures[-1].detach().mean()))
    assert sizes[-1] < 0.7 * sizes[0]


@torch.no_grad()
def test_one_attention_or_two(vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)
    one, two = (kind(vocabulary, encoder, **SMALL).eval() for kind in (CaptAtt, CaptDualAtt))
    assert one.encode(pairs).pictures[1].shape == (3, 1, 196)
    weights = two.encode(pairs).pictures[1]
    assert weights.shape == (3, 2, 196)
    assert not torch.allclose(weights[0, 0], weights[0, 1])
    torch.testing.assert_close(weights[2, 0], weights[2, 1])  # nothing differs there


@torch.no_grad()
def test_what_the_differences_see(vocabulary: Vocabulary, encoder: Encoder, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)
    assert pairs.maps is not None
    assert pairs.before is not None
    assert pairs.after is not None
    pixels, maps = CaptPixDiff(vocabulary, encoder), CaptRepDiff(vocabulary, encoder)
    signed = project_masks((pairs.after.float() - pairs.before.float()) / 255, 0.0)
    seen = pixels.seen(pairs)
    torch.testing.assert_close(seen[:, -3:], signed)
    torch.testing.assert_close(seen[:, :8], pairs.maps[0])
    swapped = replace(pairs, before=pairs.after, after=pairs.before, maps=pairs.maps[::-1])
    torch.testing.assert_close(pixels.seen(swapped)[:, -3:], -signed)
    torch.testing.assert_close(maps.seen(pairs)[:, :8], pairs.maps[1] - pairs.maps[0])
    assert not torch.allclose(maps.pictures(swapped)[0], maps.pictures(pairs)[0])
    with pytest.raises(ValueError, match="looks at pixels"):
        pixels.encode(replace(pairs, before=None))


def test_bad_arguments_are_refused(vocabulary: Vocabulary, encoder: Encoder) -> None:
    for kind in (DUDA, CaptAtt, CaptRepDiff):
        with pytest.raises(ValueError, match=r"changed_weight must be in 0\.\.1, not 1\.5"):
            kind(vocabulary, encoder, changed_weight=1.5)
        assert isinstance(kind(vocabulary, encoder), ChangeCaptioner)
    with pytest.raises(ValueError, match="divisible by num_groups"):
        DUDA(vocabulary, encoder, attention=10, groups=4)
    assert math.isclose(DUDA(vocabulary, encoder).changed_weight, 0.5)
