from dataclasses import replace

import torch

from models.encoders import Encoder
from models.papers.idc_pcl import IDCPCL, IMAGE, Layer
from models.papers.vocabulary import BOS, Vocabulary

SMALL = {"size": 32, "inner": 48, "heads": 4, "layers": 2, "dropout": 0.1}
PLACES = [[(20, 30, 40, 50)], [], [(60, 60, 50, 30)]]
TOLD = [["a red car has appeared on the left"], ["nothing has changed"], ["a green bottle has moved"]]


def build(vocabulary: Vocabulary, encoder: Encoder, **arguments: object) -> IDCPCL:
    torch.manual_seed(3)
    return IDCPCL(vocabulary, encoder, **(SMALL | arguments)).eval()  # type: ignore[arg-type]


@torch.no_grad()
def test_a_layer_equals_the_published_one():
    """Pre-norm, against torch's own encoder layer with the same weights."""
    torch.manual_seed(0)
    ours = Layer(16, 4, 32, 0.0)
    theirs = torch.nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=True).eval()
    attention = theirs.self_attn
    attention.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
    attention.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    attention.out_proj.load_state_dict(ours.out.state_dict())
    theirs.linear1.load_state_dict(ours.inner[0].state_dict())
    theirs.linear2.load_state_dict(ours.inner[3].state_dict())
    theirs.norm1.load_state_dict(ours.norm.state_dict())
    theirs.norm2.load_state_dict(ours.inner_norm.state_dict())
    x, seen = torch.randn(3, 7, 16), torch.ones(1, 7, 7, dtype=torch.bool).tril()
    torch.testing.assert_close(
        ours(x, ours.keys_values(x), seen), theirs(x, src_mask=~seen[0]), rtol=1e-4, atol=1e-5
    )


@torch.no_grad()
def test_images_do_not_see_words_and_words_not_what_comes_after(vocabulary, encoder, make_pairs):
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
def test_pair_layers_that_compare_see_at_once_where_the_pictures_differ(vocabulary, encoder, make_pairs):
    cells = build(vocabulary, encoder).cells(make_pairs([[(100, 100, 60, 60)]]))
    cells[:, 1] = cells[:, 0]
    cells[:, 1, 24] += 3 * torch.randn(cells.shape[3])

    def contrast(**arguments: object) -> float:
        """How far the changed cell stands out from the others, after the difference encoder."""
        looked = build(vocabulary, encoder, dropout=0.0, pair_layers=1, **arguments).encode_difference(cells)
        before, after = (each[0, 1:] - each[0, 1:].mean(dim=0) for each in looked.split(IMAGE, dim=1))
        size = torch.cat([before, after], dim=1).norm(dim=1)
        return float(size[24] / size[torch.arange(49) != 24].max())

    assert contrast(comparing=True) > 1.2
    assert contrast(comparing=True) > contrast() + 0.2


def test_the_judge_learns_what_a_distractor_is(vocabulary, encoder, make_pairs):
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
