"""Words and their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

PAD, BOS, EOS, UNK = range(4)  # padding, begin and end of sentence, a word not in the vocabulary
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")

_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*")
_CURLY = str.maketrans({"\u2019": "'", "\u2018": "'", "\u2010": "-", "\u2011": "-"})


def tokenize(sentence: str) -> list[str]:
    """Lower-case words without punctuation, as in the released Spot-the-diff annotations.

    Apostrophes and hyphens inside a word stay ("isn't", "double-decker").
    """
    return _WORD.findall(sentence.lower().translate(_CURLY))


def surface(words: Sequence[str]) -> str:
    """The sentence with its capital letter and full stop; empty for no words."""
    text = " ".join(words)
    return f"{text[0].upper()}{text[1:]}." if text else ""


class Vocabulary:
    """The words of a captioner: `words` by their tokens, of which the first four are `SPECIAL`."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words: tuple[str, ...] = (*SPECIAL, *words)
        self._tokens = {word: token for token, word in enumerate(self.words)}
        if len(self._tokens) != len(self.words):
            twice = [word for word, n in Counter(self.words).items() if n > 1]
            raise ValueError(f"the vocabulary has words twice: {twice[:5]}")
        odd = [word for word in words if tokenize(word) != [word]]
        if odd:
            raise ValueError(
                f"not single lower-case words: {odd[:5]}; make a vocabulary with Vocabulary.build"
            )

    @classmethod
    def build(cls, sentences: Iterable[str], min_count: int = 5) -> Vocabulary:
        """The words that occur at least `min_count` times (5: Jhamtani 2018, Table 1), by frequency."""
        counts = Counter(word for sentence in sentences for word in tokenize(sentence))
        frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        return cls([word for _, word in frequent])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """Tokens of a sentence, ended by EOS; without BOS. Unknown words become UNK."""
        return [*(self._tokens.get(word, UNK) for word in tokenize(sentence)), EOS]

    def decode(self, tokens: Iterable[int]) -> list[str]:
        """The words up to the first EOS; padding and BOS are left out, UNK reads "<unk>"."""
        said = takewhile(lambda token: token != EOS, tokens)
        return [self.words[token] for token in said if token not in (PAD, BOS)]

    def batch(self, descriptions: Sequence[Sequence[str]], max_words: int | None = None) -> Tensor:
        """Sentences of B pairs as tokens int64 ``(B, T, L)``: words, EOS, padding; T, L >= 1.

        Sentences without words are left out, longer ones than `max_words` cut; a missing one is all padding.
        """
        import torch  # noqa: PLC0415 - words alone need none

        encoded = [[self.encode(s)[:-1][:max_words] for s in sentences] for sentences in descriptions]
        encoded = [[[*tokens, EOS] for tokens in pair if tokens] for pair in encoded]
        most = max((len(pair) for pair in encoded), default=0)
        longest = max((len(tokens) for pair in encoded for tokens in pair), default=0)
        tokens = torch.full((len(encoded), max(most, 1), max(longest, 1)), PAD, dtype=torch.int64)
        for b, pair in enumerate(encoded):
            for t, sentence in enumerate(pair):
                tokens[b, t, : len(sentence)] = torch.tensor(sentence)
        return tokens
