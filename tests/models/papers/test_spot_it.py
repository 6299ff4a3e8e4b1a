from dataclasses import replace

import torch

from models.papers.captioner import PairBatch
from models.papers.spot_it import SpotIt, difference

PLACES = [[(20, 30, 40, 50)], [(60, 60, 50, 30)], []]
TOLD = [["a red car"], ["a bottle has moved"], ["nothing has changed"]]
SMALL = {"features": 16, "hidden": 24}


def swapped(pairs: PairBatch) -> PairBatch:
    """Before and after changed places."""
    return replace(pairs, before=pairs.after, after=pairs.before)


def remembered(captioner: SpotIt, pairs: PairBatch) -> torch.Tensor:
    """What the recurrent network remembers of the picture, ``(B, hidden)``."""
    return captioner.encode(pairs).memory[0].detach()


def pooled(captioner: SpotIt, pairs: PairBatch) -> torch.Tensor:
    """What the CNN saw, as it is reduced to v, ``(B, channels or twice that)``."""
    seen: list[torch.Tensor] = []
    hook = captioner.reduce.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    captioner.encode(pairs)
    hook.remove()
    return seen[0]


def test_the_difference_is_signed_and_told_twice():
    before, after = torch.zeros(1, 3, 8, 16), torch.zeros(1, 3, 8, 16)
    after[:, :, 2, 4:6] = 200.0
    seen = difference(before, after)
    assert seen.shape == (1, 3, 8, 16)
    assert seen[0, 0, 2, 2] == -200
    assert seen[0, 0, 2, 8 + 2] == 200
    assert seen.abs().sum() == 2 * 3 * 200
    assert torch.equal(difference(after, before), -seen)
    assert torch.equal(difference(after, before), seen.roll(8, dims=3))
    assert difference(before[..., :15], after[..., :15]).shape == (1, 3, 8, 15)


@torch.no_grad()
def test_which_image_came_first_is_seen_if_the_halves_are_pooled_apart(vocabulary, lite0, make_pairs):
    """To exchange the images is to exchange the halves, which a mean over both hardly notices."""
    pairs = make_pairs(PLACES[:2])
    shares = {}
    for halves in (True, False):
        captioner = SpotIt(vocabulary, lite0, halves=halves, features=8).eval()
        blank = replace(pairs, before=pairs.after)
        one, other, none = (pooled(captioner, p) for p in (pairs, swapped(pairs), blank))
        shares[halves] = (one - other).norm(dim=1) / (one - none).norm(dim=1)
    assert (shares[True] > 1.5 * shares[False]).all()
    assert (shares[False] < 0.2).all()


def test_the_cnn_is_trained_and_the_encoder_is_not(vocabulary, lite0, make_pairs):
    pairs, sentences = make_pairs(PLACES[:2]), vocabulary.batch(TOLD[:2])
    captioner = SpotIt(vocabulary, lite0, **SMALL)
    untrained = {name: p.clone() for name, p in captioner.named_parameters() if "cnn." in name}
    assert len(untrained) > 50
    optimiser = torch.optim.Adam(captioner.parameters(), lr=1e-4)
    captioner.train().loss(pairs, sentences).backward()
    optimiser.step()
    for name, p in captioner.named_parameters():
        if "cnn." in name:
            assert p.grad is not None, name
            assert torch.isfinite(p.grad).all()
    moved = [not torch.equal(dict(captioner.named_parameters())[name], p) for name, p in untrained.items()]
    assert sum(moved) > 0.9 * len(moved)
    assert all(p.grad is None for p in captioner.encoder.parameters())
    frozen = SpotIt(vocabulary, lite0, **SMALL, trained=False)
    frozen.train().loss(pairs, sentences).backward()
    assert all(p.grad is None for p in frozen.cnn.parameters())


def test_training_turns_and_enlarges_and_description_does_not(vocabulary, encoder, make_pairs):
    pairs = make_pairs(PLACES)
    captioner = SpotIt(vocabulary, encoder, **SMALL, rotation=10.0, zoom=0.3, dropout=0.0)
    captioner.norm.eval()
    captioner.train()
    torch.manual_seed(0)
    first, second = (remembered(captioner, pairs) for _ in range(2))
    assert not torch.allclose(first[:2], second[:2])
    captioner.eval()
    assert torch.equal(remembered(captioner, pairs), remembered(captioner, pairs))
    assert pairs.before is not None
    assert pairs.after is not None
    before, after = (x.float() for x in (pairs.before, pairs.after))
    turned = captioner._augment(before, after)
    torch.testing.assert_close(turned[0][2], turned[1][2])  # alike: no difference is made
    area = [float((b - a).abs().sum()) for b, a in ((before, after), turned)]
    assert 1.0 < area[1] / area[0] < 1.8
    still = SpotIt(vocabulary, encoder, **SMALL, rotation=0.0, zoom=0.0)
    torch.testing.assert_close(still._augment(before, after)[1], after, atol=0.1, rtol=0)


def test_a_last_batch_of_one_pair_can_be_trained_on(vocabulary, encoder, make_pairs):
    captioner = SpotIt(vocabulary, encoder, **SMALL).train()
    statistics = captioner.norm.running_var
    before = statistics.clone()
    captioner.loss(make_pairs(PLACES[:1]), vocabulary.batch(TOLD[:1])).backward()
    assert torch.equal(statistics, before)
    captioner.loss(make_pairs(PLACES), vocabulary.batch(TOLD)).backward()
    assert not torch.equal(statistics, before)
