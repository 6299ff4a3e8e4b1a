"""The decoder of Jhamtani and Berg-Kirkpatrick 2018, section 4: an LSTM that attends to both images.

Additive attention (Xu et al. 2015) at every step, over the cells of both images, its weights multiplied by a
mask; the first state is a linear transform of both images' features. DDLA and the CAPT baselines share it and
differ in the mask. For what the paper leaves open see `models.papers.ddla`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.encoders.encoder import GRID, Encoder
from models.papers.pair_batch import PairBatch
from models.papers.recurrent import Recurrent
from models.papers.state import State
from models.papers.vocabulary import PAD, Vocabulary


class Attending(Recurrent):
    """See the head of this file.

    A row's `State.pictures` are keys and values ``(N, 2, M, ...)`` of M cells and the logarithms of their
    weights under the mask, ``(N, M)``; its `State.memory` is the LSTM's.
    """

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(Recurrent.Options):
        features: int = 192  # size of the embedded maps
        words: int = 128  # size of the word vectors
        hidden: int = 384  # size of the LSTM
        attention: int = 128  # size of the attention
        dropout: float = 0.3  # share 0..1, of word vectors and of what the next word is predicted from
        coordinates: bool = False  # whether every cell of the maps also holds its x and y

    options: Options
    coordinates: Tensor | None

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, **arguments: Any) -> None:
        super().__init__(vocabulary, encoder, **arguments)
        options = self.options
        self.register_buffer(
            "coordinates", cell_coordinates() if options.coordinates else None, persistent=False
        )
        self.embed_map = nn.Sequential(
            nn.Linear(encoder.channels + 2 * options.coordinates, options.features), nn.ReLU()
        )
        self.first = nn.Linear(2 * options.features, 2 * options.hidden)
        self.key = nn.Linear(options.features, options.attention)
        self.query = nn.Linear(options.hidden, options.attention, bias=False)
        self.score = nn.Linear(options.attention, 1, bias=False)
        self.embed_word = nn.Embedding(len(vocabulary), options.words, padding_idx=PAD)
        self.lstm = nn.LSTMCell(options.words + 2 * options.features, options.hidden)
        self.next_word = nn.Linear(options.hidden + 2 * options.features, len(vocabulary))
        self.dropout = nn.Dropout(options.dropout)

    def embed(self, pairs: PairBatch) -> Tensor:
        """Both images' cells, float32 ``(B, 196, 2, features)``."""
        maps = torch.stack(self.maps(pairs), dim=1).float()  # a cache may hold halves
        cells = maps.flatten(3).permute(0, 3, 1, 2)
        if self.coordinates is not None:
            at = self.coordinates.view(1, GRID * GRID, 1, 2).expand(*cells.shape[:3], 2)
            cells = torch.cat([cells, at], dim=3)
        embedded: Tensor = self.embed_map(cells)
        return embedded

    def first_state(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state before the first word, ``(B, hidden)`` each, of `embedded`."""
        hidden, cell = self.first(embedded.mean(dim=1).flatten(1)).chunk(2, dim=1)
        return hidden, cell

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The hidden state and both contexts, ``(N, hidden + 2 * features)``."""
        hidden, cell = state.memory
        context = self._context(self.query(hidden), *state.pictures)
        words = self.dropout(self.embed_word(tokens))
        hidden, cell = self.lstm(torch.cat([words, context], dim=1), (hidden, cell))
        return self.dropout(torch.cat([hidden, context], dim=1)), state.remember(hidden, cell)

    def _context(self, queries: Tensor, keys: Tensor, values: Tensor, log_weights: Tensor) -> Tensor:
        """Contexts of both images for each row, ``(N, 2 * features)``."""
        matched = torch.tanh(keys + queries[:, None, None, :])
        # Multiplying the weights by the mask and renormalising is adding its logarithm before the softmax.
        weights = (self.score(matched)[..., 0] + log_weights.unsqueeze(1)).softmax(dim=2)
        seen: Tensor = weights.unsqueeze(2) @ values
        return seen.flatten(1)


def cell_coordinates() -> Tensor:
    """The centre of each cell, x then y, in -1..1, ``(196, 2)``, row by row."""
    along = (torch.arange(GRID) + 0.5) / GRID * 2 - 1
    y, x = torch.meshgrid(along, along, indexing="ij")
    return torch.stack([x, y], dim=-1).flatten(0, 1)
