"""DUDA, dual dynamic attention, and the baselines that it is compared with.

Park, Darrell and Rohrbach, "Robust Change Captioning", ICCV 2019; the captioner of Hosseinzadeh and Wang,
"Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021 (tables 1 and 5).

    d = f_after - f_before
    a_i = sigmoid(conv2(ReLU(dropout(norm(conv1([f_i; d]))))))      a cell's weight, of each image
    l_b = s sum a_before f_before, l_a = s sum a_after f_after, l_d = l_a - l_b
    u = dropout(ReLU(W [l_b; l_d; l_a]))
    h1 = LSTM([u; h2]), w = softmax(W h1)                           before, difference or after?
    h2 = LSTM([word; w_b l_b + w_d l_d + w_a l_a]), P(word) = softmax(W h2)
    L = c L_changed + (1 - c) L_distractor + 2.5e-3 attention - 1e-4 entropy of w, c = 0.5

The baselines give one vector to an LSTM at every word, in place of the choice w:

    Capt-Pix-Diff   the images' difference in pixels beside both maps; convolutions and pooling
    Capt-Rep-Diff   the difference of the maps; convolutions and pooling
    Capt-Att        one attention for both images; [l_b; l_d; l_a]
    Capt-Dual-Att   an attention for each image, as in DUDA; [l_b; l_d; l_a]

L_changed and L_distractor are the mean of -log P(word) over the words said about pairs in which something
changed, and about distractors. Attention is the mean sum of the weights a_i, which keeps them sparse, entropy
the sum over a sentence's words, mean over sentences; both of changed pairs only. Dropout of u is drawn again
at every word, and a word's vector goes through ReLU and dropout. All of this is the released code's
(github.com/Seth-Park/RobustChangeCaptioning). Defaults are the papers': with encoder "resnet101_stage3" f has
1024 channels and two of coordinates, [f_i; d] 2052, [l_b; l_d; l_a] 3078.

Where the papers are silent, and departures:
* Their batches hold a changed and a distractor pair of every scene. Here a batch is drawn from the split, and
  where it has pairs of one kind only (Spot-the-diff has no distractors) their mean counts whole.
* A pair is a distractor where no sentence about it mentions a change (`PairBatch.changed`).
* A sentence ends with EOS; in the released code the first NULL of the padding does that.
* A cell's coordinates are those of its centre; the code's of its upper left corner.
* What belongs to training stands in configs/train/duda.yaml: an epoch draws one caption of each pair
  (`drawn`), the views of a scene without a change are swapped (`swapped`), the rate falls tenfold every 15
  epochs. The code swaps both pairs of a scene together, and clips no gradients; here each pair is swapped by
  itself, and gradients are clipped.
* The sums are not normalised, as in the released code. They saturate the LSTMs until the attention's term has
  made them small; a `scale` below 1 learns sooner (on the generated benchmark, 1/14: perplexity 15 instead of
  42 after the first epoch, 2.7 and 2.8 after the fifth). 1/196 would make means of them.
* h2 of the first LSTM's input is that of the word before. Both LSTMs begin with zeros.
* Two things of the code's are not repeated: captions are decoded greedily or by beam in validation and test
  alike (the code draws words in validation), and one snapshot is kept for all metrics (the code takes each
  metric's best).
* The code's head that names the type of change is left out: nothing is learnt through it.
* The entropy weighs 1e-4, as in the code's description; its own default is 0.
* Encoder: any of `ENCODERS`.
* The convolutions: twice 3x3, ReLU and 2x2 max pooling, from 14x14 to 3x3 cells, which a linear layer and
  ReLU bring to the vector.
* The pixels' difference is after minus before, signed, -1..1, brought to 14x14 by pyramid reduction.
* Capt-Att sees [f_before; f_after]; of these the difference is a linear function.
* No baseline was released. What DUDA's code does to word vectors and to u is done here to word vectors and
  to the vector, so that the rows differ in nothing else.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoders import GRID, Encoder
from models.papers.captioner import PairBatch, Recurrent, given_sentences, log_likelihood_of_words, unroll
from models.papers.ddla import cell_coordinates, project_masks
from models.papers.decoding import State
from models.papers.vocabulary import PAD, Vocabulary


class ChangeCaptioner(Recurrent):
    """See the head of this file. `channels` are those of `cells`: the encoder's and two of coordinates."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Recurrent.Options):
        visual: int = 512  # size of what is seen, brought to one vector
        words: int = 300  # size of the word vectors
        hidden: int = 512  # size of each LSTM
        dropout: float = 0.5  # share 0..1, of word vectors and of the hidden state
        changed_weight: float = 0.5  # c, share 0..1 of the loss of changed pairs, against distractors

        def __post_init__(self) -> None:
            if not 0 <= self.changed_weight <= 1:
                raise ValueError(f"changed_weight must be in 0..1, not {self.changed_weight}")

    whole = True
    needs_masks = False
    options: Options
    coordinates: Tensor

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.changed_weight = self.options.changed_weight
        self.channels = encoder.channels + 2
        at = cell_coordinates().T.reshape(1, 2, GRID, GRID)
        self.register_buffer("coordinates", at, persistent=False)

    def make_decoder(self, seen: int) -> None:
        """The LSTM that words a pair, from a word and a vector of this size, and its layers."""
        options = self.options
        self.embed_word = nn.Embedding(len(self.vocabulary), options.words, padding_idx=PAD)
        self.telling = nn.LSTMCell(options.words + seen, options.hidden)
        self.next_word = nn.Linear(options.hidden, len(self.vocabulary))
        self.dropout = nn.Dropout(options.dropout)

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:  # noqa: ARG002 - for subclasses
        """Further terms, none here; `said` ``(N, L)`` and `changed` ``(B,)`` leave distractors out."""
        return state.pictures[0].new_zeros(())

    def cells(self, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """Maps of before and after with each cell's x and y, float32 ``(B, channels, 14, 14)`` each."""
        before, after = (
            torch.cat([each.float(), self.coordinates.expand(len(each), -1, -1, -1)], dim=1)
            for each in self.maps(pairs)
        )
        return before, after

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        state = self.encode(pairs)
        b, _, tokens = given_sentences(sentences)
        if not len(b):  # a zero that a gradient can go through
            return 0.0 * torch.stack([x.sum() for x in state.pictures]).sum()
        unrolled = list(unroll(self.advance, state.select(b), tokens))
        seen = torch.stack([each for each, _ in unrolled], dim=1)
        log_p = log_likelihood_of_words(self.next_word, seen, tokens)
        said = tokens != PAD
        changed = pairs.valid.new_ones(len(pairs.valid)) if pairs.changed is None else pairs.changed
        of_changed = changed[b]
        kinds = ((of_changed, self.changed_weight), (~of_changed, 1 - self.changed_weight))
        means = [(-log_p[kind].sum() / said[kind].sum(), weight) for kind, weight in kinds if kind.any()]
        of_words = means[0][0] if len(means) == 1 else sum(mean * weight for mean, weight in means)
        after = [state for _, state in unrolled]
        return of_words + self.further_loss(state, after, said & of_changed.unsqueeze(1), changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendingOptions(ChangeCaptioner.Options):
    attention: int = 128  # channels between the attention's convolutions, a multiple of `groups`
    groups: int = 32  # of the attention's group norm
    attention_dropout: float = 0.5  # share 0..1, inside the attention
    scale: float = 1.0  # s, of the attention-weighted sums; 1 is the papers'
    attention_weight: float = 2.5e-3  # of the sum of the attention in the loss


class SpatialAttention(nn.Module):
    """Attention weight of each cell, 0..1: 1x1 convolution, group norm, dropout, ReLU, 1x1, sigmoid."""

    def __init__(self, channels: int, options: AttendingOptions) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, options.attention, 1),
            nn.GroupNorm(options.groups, options.attention),
            nn.Dropout(options.attention_dropout),
            nn.ReLU(),
            nn.Conv2d(options.attention, 1, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """From float ``(B, channels, 14, 14)`` to ``(B, 196)``."""
        weights: Tensor = self.layers(x)
        return weights.flatten(1)

    def attend_both(self, before: Tensor, after: Tensor) -> Tensor:
        """Weights ``(B, 2, 196)`` of [before; d] and [after; d], d the difference, of ``(B, C, 14, 14)``."""
        each = (torch.cat([own, after - before], dim=1) for own in (before, after))
        return torch.stack([self(seen) for seen in each], dim=1)


def attention_layers(channels: int, options: AttendingOptions) -> tuple[SpatialAttention, nn.Sequential]:
    """The attention over cells of these channels, and from [l_b; l_d; l_a] to `Options.visual`."""
    attention = SpatialAttention(2 * channels, options)
    return attention, nn.Sequential(nn.Linear(3 * channels, options.visual), nn.ReLU())


def attend(cells: tuple[Tensor, Tensor], attention: Tensor, scale: float) -> Tensor:
    """The vectors l of before, difference and after, ``(B, 3, C)``: `scale` times attention-weighted sums.

    Of cells ``(B, C, 14, 14)`` of both images under weights ``(B, 1 or 2, 196)``.
    """
    weights = attention.expand(-1, 2, -1).unbind(dim=1)
    left, right = (
        scale * (own.flatten(2) @ each.unsqueeze(2))[..., 0] for own, each in zip(cells, weights, strict=True)
    )
    return torch.stack([left, right - left, right], dim=1)


def attention_size(attention: Tensor, changed: Tensor) -> Tensor:
    """Mean over images and `changed` pairs ``(B,)`` of the sum of attention ``(B, images, 196)``."""
    return (attention.sum(dim=2).mean(dim=1) * changed).sum() / changed.sum().clamp(min=1)


class DUDA(ChangeCaptioner):
    """See the head of this file.

    A row's `State.pictures` are u ``(N, visual)``, l of before, difference and after ``(N, 3, channels)`` and
    the attention over both images ``(N, 2, 196)``; its `State.memory` ends with the last word's w ``(N, 3)``.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(AttendingOptions):
        entropy_weight: float = 1e-4  # of the entropy of w in the loss

    name = "duda"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.attention, self.embed_visual = attention_layers(self.channels, options)
        self.choosing = nn.LSTMCell(options.visual + options.hidden, options.hidden)
        self.choice = nn.Linear(options.hidden, 3)
        self.make_decoder(self.channels)

    def encode(self, pairs: PairBatch) -> State:
        cells = self.cells(pairs)
        attention = self.attention.attend_both(*cells)
        parts = attend(cells, attention, self.options.scale)
        visual = self.embed_visual(parts.flatten(1))
        zeros = visual.new_zeros(len(visual), self.telling.hidden_size)
        chosen = visual.new_full((len(visual), 3), 1 / 3)
        return State.of_pairs((visual, parts, attention), (zeros, zeros, zeros, zeros, chosen))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """H2, ``(N, hidden)``."""
        visual, parts, _ = state.pictures
        hidden1, cell1, hidden2, cell2, _ = state.memory
        hidden1, cell1 = self.choosing(torch.cat([self.dropout(visual), hidden2], dim=1), (hidden1, cell1))
        chosen = self.choice(hidden1).softmax(dim=1)
        looked = (chosen.unsqueeze(1) @ parts)[:, 0]
        words = self.dropout(self.embed_word(tokens).relu())
        hidden2, cell2 = self.telling(torch.cat([words, looked], dim=1), (hidden2, cell2))
        return self.dropout(hidden2), state.remember(hidden1, cell1, hidden2, cell2, chosen)

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:
        """Sparse attention, and a choice between the images that is not settled too soon."""
        chosen = torch.stack([each.memory[-1] for each in unrolled], dim=1)[said]
        entropy = -(chosen * chosen.clamp(min=1e-9).log()).sum() / said.any(dim=1).sum().clamp(min=1)
        size = attention_size(state.pictures[2], changed)
        return self.options.attention_weight * size - self.options.entropy_weight * entropy


class OneVector(ChangeCaptioner):
    """Describes a pair from one vector; its `State.pictures` begin with that, ``(N, visual)``."""

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.make_decoder(self.options.visual)

    @abstractmethod
    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        """The vector ``(B, visual)`` and, where there is one, the attention ``(B, images, 196)``."""

    def encode(self, pairs: PairBatch) -> State:
        pictures = self.pictures(pairs)
        zeros = pictures[0].new_zeros(len(pictures[0]), self.telling.hidden_size)
        return State.of_pairs(pictures, (zeros, zeros))

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden state, ``(N, hidden)``."""
        words = self.dropout(self.embed_word(tokens).relu())
        seen = torch.cat([words, self.dropout(state.pictures[0])], dim=1)
        hidden, cell = self.telling(seen, state.memory)
        return self.dropout(hidden), state.remember(hidden, cell)


class CaptRepDiff(OneVector):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(OneVector.Options):
        convolved: int = 256  # channels of the convolutions

    name = "capt-rep-diff"
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        convolved = self.options.convolved
        self.pooling = nn.Sequential(
            nn.Conv2d(2 * self.channels + 3 if self.needs_images else self.channels, convolved, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(convolved, convolved, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(convolved * (GRID // 4) ** 2, self.options.visual),
            nn.ReLU(),
        )

    def features(self, pairs: PairBatch) -> Tensor:
        """Input of the convolutions, float32 ``(B, channels, 14, 14)``."""
        before, after = self.maps(pairs)
        return torch.cat([after - before, self.coordinates.expand(len(before), -1, -1, -1)], dim=1)

    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        return (self.pooling(self.features(pairs)),)


class CaptPixDiff(CaptRepDiff):
    name = "capt-pix-diff"
    needs_images = True

    def features(self, pairs: PairBatch) -> Tensor:
        if pairs.before is None or pairs.after is None:
            raise ValueError(f"{self.name} looks at pixels: give a PairBatch with its images, not maps only")
        difference = (pairs.after.float() - pairs.before.float()) / 255
        return torch.cat([*self.cells(pairs), project_masks(difference, smoothing=0.0)], dim=1)


class _Attended(OneVector):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(AttendingOptions):
        """DUDA's, but for the choice between images that there is none of."""

    dual: bool  # an attention for each image, from its map and the difference; else one for both
    options: Options

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        self.attention, self.embed_visual = attention_layers(self.channels, self.options)

    def pictures(self, pairs: PairBatch) -> tuple[Tensor, ...]:
        cells = self.cells(pairs)
        if self.dual:
            weights = self.attention.attend_both(*cells)
        else:
            weights = self.attention(torch.cat(cells, dim=1)).unsqueeze(1)
        return self.embed_visual(attend(cells, weights, self.options.scale).flatten(1)), weights

    def further_loss(self, state: State, unrolled: list[State], said: Tensor, changed: Tensor) -> Tensor:  # noqa: ARG002
        return self.options.attention_weight * attention_size(state.pictures[1], changed)


class CaptAtt(_Attended):
    name = "capt-att"
    dual = False


class CaptDualAtt(_Attended):
    name = "capt-dual-att"
    dual = True
