"""The signatures of a journal as its verification needs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.record import ChainEnd

if TYPE_CHECKING:  # the library of signatures loads where there is one
    from pipeline.journal.signatures import Signature


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What was signed of a chain.

    Attributes:
        path: of the signatures, whether there are any or not.
        lines: the signatures with their line numbers; a text says why a line is none.
        unreadable: why the file cannot be read; empty where it can, or is absent.
    """

    path: Path
    lines: tuple[tuple[int, Signature | str], ...] = ()
    unreadable: str = ""

    @property
    def signatures(self) -> list[Signature]:
        """Those that can be read."""
        return [signature for _, signature in self.lines if not isinstance(signature, str)]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the records that were signed."""
        return frozenset(signature.seq for signature in self.signatures)

    @property
    def last(self) -> int:
        """The number signed last; 0 where none is."""
        return max(self.numbers, default=0)

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys that they name, in their order."""
        return tuple(dict.fromkeys(signature.key for signature in self.signatures))

    def fault(
        self, hashes: Mapping[int, str], end: ChainEnd, keys: Collection[str], *, whole: bool
    ) -> tuple[int, str] | None:
        """The first line that does not bear the chain out, and why.

        Args:
            hashes: of the records that were signed and are there, by number.
            end: of the chain.
            keys: public keys that may have signed; empty allows any.
            whole: the chain holds to its end; else what was signed of the rest is not compared.
        """
        if self.unreadable:
            return 0, self.unreadable
        if keys and not self.lines:
            return 0, "no signature: the journal was never signed, or its signatures were deleted"
        last = 0
        for line, signature in self.lines:
            if isinstance(signature, str):
                return line, signature
            reason = _fault(signature, self.path.stem, last, keys)
            if not reason and signature.seq in hashes and hashes[signature.seq] != signature.hash:
                reason = f"record {signature.seq} is not the one that was signed at {signature.time}"
            if not reason and whole and signature.seq > end.seq:
                reason = (
                    f"record {signature.seq} was signed at {signature.time}, but the journal ends with "
                    f"{end.seq}: lines were cut off its end"
                )
            if reason:
                return line, reason
            last = signature.seq
        return None


def _fault(signature: Signature, camera: str, last: int, keys: Collection[str]) -> str:
    """What is wrong with a signature by itself; empty where nothing is."""
    if keys and signature.key not in keys:
        return f"signed with the key {signature.key}, which is not among the keys given"
    if not signature.holds():
        return "the signature does not match: the line was changed"
    if signature.camera != camera:
        return f"it belongs to {signature.camera}"
    return f"it signs {signature.seq} after {last}" if signature.seq < last else ""


def read_witnesses(folder: Path, camera: str) -> Witnesses:
    """What was signed of a camera's journal; nothing where there is no such file."""
    path = folder / f"{camera}.signatures"
    if not path.exists():
        return Witnesses(path)
    from pipeline.journal.signatures import read_signatures  # noqa: PLC0415 - see above

    try:
        return Witnesses(path, tuple(read_signatures(path.read_bytes())))
    except OSError as error:
        return Witnesses(path, unreadable=f"cannot be read: {error.strerror or error}")
