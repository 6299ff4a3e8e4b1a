"""TIRG: from a before frame and a sentence to the after frame, among candidates.

Vo et al., "Composing Text and Image for Image Retrieval", CVPR 2019; the auxiliary network of Hosseinzadeh
and Wang, "Image Change Captioning by Learning from an Auxiliary Task", CVPR 2021.

    f(x, t) = a0 sigmoid(W ReLU(BN[x; t])) * x + a1 MLP(ReLU(BN[x; t])),   a = (1, 10), learned
    k(A, C) = f(A, C),   g(I) = x;   a candidate's score is <k(A, C), g(I)>

as in equations 6 and 9 of Hosseinzadeh and Wang. TIRG's own code takes s f / |f| and s x / |x|,
s = 4 and learned: `scale`.

x is the picture's vector (512) and t the sentence's, the last state of an LSTM (512) over its words.

Where the papers are silent, and departures:
* x is made of the picture's features in `grid` x `grid` cells by two linear layers with ReLU between them:
  each cell to `cells` channels, then all of them to x. TIRG takes one linear layer of the mean (grid 1);
  before and after differ in a few cells only, which a mean over the frame hides.
* Word vectors and the LSTM's last state are dropped out (`dropout`); TIRG's code drops neither.
* The MLP is two linear layers with ReLU between them, as in TIRG's code.
* A batch of one picture is normalised as in evaluation: it has no variance.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, normalize

from models.checkpoint import CheckpointError, read_checkpoint, write_labelled
from models.papers.captioner import batch_normalise
from models.papers.vocabulary import PAD, Vocabulary

NAME = "tirg"


class TIRG(nn.Module):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        size: int = 512  # of the vectors of pictures and sentences, and of the LSTM
        words: int = 512  # size of the word vectors
        grid: int = 7  # cells of the picture, in both directions; 1 is the papers' mean
        cells: int = 64  # channels of a cell
        scale: float | None = None  # s, of normalised vectors, at first; None does not normalise them
        dropout: float = 0.1  # share 0..1, of word vectors and of the LSTM's last state

    def __init__(
        self, vocabulary: Vocabulary, channels: int, encoder: tuple[str, str] = ("", ""), **arguments: Any
    ) -> None:
        """`encoder`: name and sha256 of the encoder whose maps it takes."""
        super().__init__()
        self.vocabulary, self.encoder, self.channels = vocabulary, encoder, channels
        self.record: Mapping[str, Any] = {}
        self.options = options = self.Options(**arguments)
        size, words, grid, cells = options.size, options.words, options.grid, options.cells
        self.cell = nn.Linear(channels, cells)
        self.picture = nn.Linear(cells * grid * grid, size)
        self.embed_word = nn.Embedding(len(vocabulary), words, padding_idx=PAD)
        self.lstm = nn.LSTM(words, size, batch_first=True)
        self.sentence = nn.Linear(size, size)
        self.gate_norm, self.change_norm = nn.BatchNorm1d(2 * size), nn.BatchNorm1d(2 * size)
        self.gate = nn.Linear(2 * size, size)
        self.change = nn.Sequential(nn.Linear(2 * size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size))
        self.shares = nn.Parameter(torch.tensor([1.0, 10.0]))
        self.scale = None if options.scale is None else nn.Parameter(torch.tensor(options.scale))
        self.dropout = nn.Dropout(options.dropout)

    def pictures(self, maps: Tensor) -> Tensor:
        """Vectors x of maps ``(N, channels, height, width)``, ``(N, size)``."""
        pooled = adaptive_avg_pool2d(maps.float(), self.options.grid).flatten(2).transpose(1, 2)
        vectors: Tensor = self.picture(self.cell(pooled).relu().flatten(1))
        return vectors

    def candidates(self, pictures: Tensor) -> Tensor:
        """g(I) from the vectors of `pictures`, float32 ``(N, size)``."""
        return self._scale(pictures)

    def queries(self, pictures: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """k(A, C), ``(N, size)``, of pictures ``(N, size)`` and word vectors ``(N, L, words)``, hard or soft.

        `lengths`, int64 ``(N,)``: how many words count; a sentence of none is a vector of zeros.
        """
        states, _ = self.lstm(self.dropout(words))
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, states.shape[2])
        said = states.gather(1, last)[:, 0] * (lengths > 0).unsqueeze(1)
        both = torch.cat([pictures, self.sentence(self.dropout(said))], dim=1)
        kept = self.gate(batch_normalise(self.gate_norm, both).relu()).sigmoid() * pictures
        changed = self.change(batch_normalise(self.change_norm, both).relu())
        return self._scale(self.shares[0] * kept + self.shares[1] * changed)

    def _scale(self, vectors: Tensor) -> Tensor:
        return vectors if self.scale is None else self.scale * normalize(vectors, dim=1)

    @torch.no_grad()
    def scores(self, before: Tensor, tokens: Tensor, candidates: Tensor) -> Tensor:
        """Scores ``(N, M)``, more is better, of M candidate maps for N before maps and tokens ``(N, L)``."""
        was_training = self.training
        self.eval()
        queries = self.queries(self.pictures(before), self.embed_word(tokens), (tokens != PAD).sum(dim=1))
        scores = queries @ self.candidates(self.pictures(candidates)).T
        self.train(was_training)
        return scores


def save_tirg(network: TIRG, path: Path) -> str:
    """Write a network as a checkpoint (`models.checkpoint`); returns sha256 (hex)."""
    encoder = dict(zip(("name", "sha256"), network.encoder, strict=True))
    label = {"format": 1, "captioner": NAME, "encoder": encoder}
    label["arguments"] = {"channels": network.channels, **asdict(network.options)}
    label |= {"vocabulary": network.vocabulary.words[4:], "record": network.record}
    weights = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    return write_labelled(label, weights, path)


def load_tirg(path: Path) -> TIRG:
    label, arrays = read_checkpoint(path)
    if label.name != NAME:
        raise CheckpointError(
            f"{path} is not a retrieval network; give the <out>.tirg.safetensors that training wrote"
        )
    encoder = label.encoder, label.encoder_sha256
    try:
        network = TIRG(Vocabulary(label.words), encoder=encoder, **label.arguments)
        network.load_state_dict({name: torch.from_numpy(each) for name, each in arrays.items()})
    except (ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} does not fit this version ({error}); train it again") from error
    network.record = label.record
    return network.eval()
