from dataclasses import replace

import pytest
import torch
from torch.nn.functional import conv2d, group_norm

from models.papers.ddla import project_masks
from models.papers.duda import DUDA, CaptPixDiff, CaptRepDiff
from models.papers.vocabulary import BOS, PAD

PLACES = [[(20, 30, 40, 50)], [(60, 60, 50, 30)], []]
TOLD = [["a red car", "the blue person is gone"], ["a bottle has moved"], ["nothing has changed"]]
SMALL = {"attention": 16, "groups": 4, "visual": 24, "words": 16, "hidden": 32}


@pytest.fixture
def duda(vocabulary, encoder) -> DUDA:
    torch.manual_seed(1)
    return DUDA(vocabulary, encoder, **SMALL).eval()


@torch.no_grad()
def test_what_it_sees_is_the_papers_arithmetic(duda, make_pairs):
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
def test_the_loss_is_half_changed_half_distractor(duda, make_pairs):
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
def test_what_the_differences_see(vocabulary, encoder, make_pairs):
    pairs = make_pairs(PLACES)
    pixels, maps = CaptPixDiff(vocabulary, encoder), CaptRepDiff(vocabulary, encoder)
    signed = project_masks((pairs.after.float() - pairs.before.float()) / 255, 0.0)
    seen = pixels.features(pairs)
    torch.testing.assert_close(seen[:, -3:], signed)
    torch.testing.assert_close(seen[:, :8], pairs.maps[0])
    swapped = replace(pairs, before=pairs.after, after=pairs.before, maps=pairs.maps[::-1])
    torch.testing.assert_close(pixels.features(swapped)[:, -3:], -signed)
    torch.testing.assert_close(maps.features(pairs)[:, :8], pairs.maps[1] - pairs.maps[0])
    assert not torch.allclose(maps.pictures(swapped)[0], maps.pictures(pairs)[0])
