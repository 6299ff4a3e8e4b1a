"""What workers saw in pictures, kept for as long as somebody needs it."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields

from torch import Tensor

from models.detections import Detections
from models.grounded.grounded import Eyes


class UnseenError(Exception):
    """A worker could not look at a picture; says why."""


def digest(picture: Tensor) -> str:
    """Of a picture's size and pixels, uint8 ``(3, h, w)``: equal pictures are looked at once."""
    rows = picture.cpu().contiguous().numpy()
    return hashlib.blake2b(
        rows.data, digest_size=16, person=f"{rows.shape[1]}x{rows.shape[2]}".encode()
    ).hexdigest()


class Sightings:
    """By the digest of a picture what was seen in it; for any number of threads. Lends a captioner its eyes.

    Args:
        here: looks at pictures that nobody was asked about, those of cameras that have no workers.

    Attributes:
        looked_here: how many pictures `here` looked at.
    """

    def __init__(self, here: Eyes) -> None:
        self.looked_here = 0
        self._here = here
        self._seen: dict[str, Detections | str] = {}
        self._needed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, pictures: Sequence[Tensor]) -> list[Detections]:
        """What is in pictures; see `models.grounded.grounded.Eyes`.

        Raises:
            UnseenError: a worker refused one of them.
        """
        found: list[Detections | None] = []
        for picture in pictures:
            seen = self._seen.get(digest(picture))
            if isinstance(seen, str):
                raise UnseenError(f"no worker can look at a picture: {seen}")
            found.append(None if seen is None else _moved(seen, picture))
        absent = [n for n, each in enumerate(found) if each is None]
        if absent:
            self.looked_here += len(absent)
            for n, each in zip(absent, self._here([pictures[n] for n in absent]), strict=True):
                found[n] = each
        return [each for each in found if each is not None]

    def need(self, digests: Iterable[str]) -> None:
        """What is seen in these is kept until it is needed no more."""
        with self._lock:
            self._needed.update(list(digests))

    def release(self, digests: Iterable[str]) -> None:
        """One of those who needed these needs them no more."""
        with self._lock:
            for each in digests:
                self._needed[each] -= 1
                if self._needed[each] <= 0:
                    del self._needed[each]
                    self._seen.pop(each, None)

    def needed(self, digests: Iterable[str]) -> bool:
        """Whether anybody needs any of these."""
        with self._lock:
            return any(each in self._needed for each in digests)

    def learn(self, digests: Sequence[str], seen: Sequence[Detections | str]) -> None:
        """What was seen in these, or why nobody could look; what nobody needs is passed over."""
        with self._lock:
            self._seen.update((d, s) for d, s in zip(digests, seen, strict=True) if d in self._needed)

    def known(self, name: str) -> bool:
        """Whether a picture was looked at, or refused."""
        return name in self._seen

    def __len__(self) -> int:
        return len(self._seen)


def _moved(seen: Detections, picture: Tensor) -> Detections:
    """On the device of the picture."""
    return Detections(*(getattr(seen, each.name).to(picture.device) for each in fields(seen)))
