"""Signed checkpoints of a journal: who holds the key has seen the chain up to here, at this time.

A hash chain shows that a line was changed, but not that somebody has written the whole chain anew or cut off
one of its ends. A signature (Ed25519, RFC 8032) of the last record's number and hash, made every few minutes
with a key that only the daemon reads, shows that up to the record; one of the anchor, where retention has
left the beginning, shows that the records before it were deleted by the daemon.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeline.disk import PRIVATE_FILE, sync_folder
from pipeline.journal.segments import Start
from pipeline.record import ChainEnd, format_time

CHECKPOINT, START = "narrated-signature/1", "narrated-start/1"
"""What is signed: the end of a chain, or where it begins."""

_DIGITS = 64
_HEX = re.compile(r"[0-9a-f]+")


class SigningError(ValueError):
    """A key or a signature cannot be used; the message says why and never holds a private key."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One line of ``<camera>.signatures``, or that of ``<camera>.start``.

    Attributes:
        schema: `CHECKPOINT` or `START`.
        camera: whose chain.
        seq, hash: of the last record that was there, or was deleted.
        time: when it was signed, ISO 8601 in UTC.
        key: the public key, 64 hexadecimal digits.
        signature: of the canonical JSON of all the others, 128 hexadecimal digits.
    """

    schema: str
    camera: str
    seq: int
    hash: str
    time: str
    key: str
    signature: str

    def line(self) -> bytes:
        """As canonical JSON, without a line end."""
        return rfc8785.dumps(asdict(self))

    def fault(self, camera: str, keys: Collection[str] = ()) -> str:
        """What is wrong with it as a signature of the camera's chain by one of the keys; empty: nothing."""
        if keys and self.key not in keys:
            return f"signed with the key {self.key}, which is not among the keys given"
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            public.verify(bytes.fromhex(self.signature), self.message())
        except (ValueError, InvalidSignature):
            return "the signature does not match: the line was changed"
        return "" if self.camera == camera else f"it belongs to {self.camera}"

    def message(self) -> bytes:
        """What is signed."""
        members = ("schema", "camera", "seq", "hash", "time")
        return rfc8785.dumps({name: getattr(self, name) for name in members})


class SigningKey:
    """A private key.

    Raises:
        SigningError: it is no key.
    """

    def __init__(self, text: str) -> None:
        if not _is_hex(text.strip(), _DIGITS):
            raise SigningError("the signing key is not 64 hexadecimal digits: `verify --new-key` makes one")
        self._private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.strip()))
        self.public = self._private.public_key().public_bytes_raw().hex()

    def sign(self, camera: str, end: ChainEnd, time: datetime, schema: str = CHECKPOINT) -> Signature:
        """Sign the end of a chain."""
        plain = Signature(schema, camera, end.seq, end.hash, format_time(time), self.public, "")
        signature = self._private.sign(plain.message()).hex()
        return Signature(schema, camera, end.seq, end.hash, plain.time, self.public, signature)

    def sign_start(self, camera: str, deleted: ChainEnd) -> Start:
        """The signed anchor of a chain whose last deleted record is `deleted`."""
        signature = self.sign(camera, deleted, datetime.now(UTC), START)
        return Start(deleted.seq, deleted.hash, signature.line())


class Signatures:
    """Appends the signatures of one camera's journal to ``<camera>.signatures``; for one thread."""

    def __init__(self, folder: Path, camera: str, key: SigningKey) -> None:
        self.path = signatures_path(folder, camera)
        self._camera, self._key = camera, key
        self._last: int | None = None

    def add(self, end: ChainEnd) -> bool:
        """Sign the end of the chain, unless it is signed already or empty; then it is on disk.

        Returns:
            True where a signature was added.

        Raises:
            OSError: it cannot be written; what was there stays whole.
        """
        if self._last is None:
            self._last = self._resume()
        if end.seq <= self._last:
            return False
        line = self._key.sign(self._camera, end, datetime.now(UTC)).line() + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            size = os.fstat(handle).st_size
            try:
                if os.write(handle, line) != len(line):
                    raise OSError("the disk took only a part of the line")  # noqa: TRY301 - undone below
                os.fsync(handle)
                if size == 0:
                    sync_folder(self.path.parent)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
        self._last = end.seq
        return True

    def _resume(self) -> int:
        """The number signed last by this key; a line that a crash tore is cut off."""
        if not self.path.exists():
            return 0
        sync_folder(self.path.parent)  # who made the file may have been killed before that
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        signed = (signature for _, signature in read_signatures(content[:whole]))
        ours = [s.seq for s in signed if isinstance(s, Signature) and s.key == self._key.public]
        return ours[-1] if ours else 0


def new_key() -> str:
    """A fresh private key as text, from the system's random numbers."""
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


def public_key(text: str) -> str:
    """Check a public key.

    Raises:
        SigningError: it is not a key.
    """
    if not _is_hex(text.strip(), _DIGITS):
        raise SigningError(
            f"{text.strip()!r} is not a public key: 64 hexadecimal digits, as `verify --new-key` prints"
        )
    return text.strip()


def signatures_path(folder: Path, camera: str) -> Path:
    """Where the signatures of a camera's journal are."""
    return folder / f"{camera}.signatures"


def read_signatures(content: bytes, schema: str = CHECKPOINT) -> Iterator[tuple[int, Signature | str]]:
    """The signatures in a file, each with its line number; what is none gives the reason instead.

    A last line without its end is left out: its writer was interrupted, or is still writing.
    """
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            signature = Signature(**json.loads(line))
            whole = signature.schema == schema and _is_spelled(signature) and signature.line() == line
            fault = "" if whole else "it was written by something else"
        except (ValueError, TypeError, RecursionError) as error:
            fault = str(error)
        yield number, f"no signature {schema}: {fault}" if fault else signature


def load_signatures(folder: Path, camera: str) -> list[Signature]:
    """The signatures of a camera's journal that can be read; empty where there are none."""
    path = signatures_path(folder, camera)
    lines = read_signatures(path.read_bytes()) if path.exists() else ()
    return [signature for _, signature in lines if isinstance(signature, Signature)]


def find_fault(
    lines: Collection[tuple[int, Signature | str]],
    camera: str,
    hashes: Mapping[int, str],
    end: ChainEnd | None,
    keys: Collection[str] = (),
) -> tuple[int, str] | None:
    """The first line of a camera's signatures that does not bear its chain out, and why.

    Args:
        lines: of `read_signatures`.
        camera: whose chain.
        hashes: of the records that were signed and are there, by number.
        end: of the chain; None where it does not hold to its end, which is then not compared.
        keys: public keys that may have signed; empty allows any.
    """
    last = 0
    for line, signature in lines:
        if isinstance(signature, str):
            return line, signature
        reason = signature.fault(camera, keys)
        if not reason and signature.seq < last:
            reason = f"it signs {signature.seq} after {last}"
        if not reason and hashes.get(signature.seq, signature.hash) != signature.hash:
            reason = f"record {signature.seq} is not the one that was signed at {signature.time}"
        if not reason and end and signature.seq > end.seq:
            reason = (
                f"record {signature.seq} was signed at {signature.time}, but the journal ends with "
                f"{end.seq}: lines were cut off its end"
            )
        if reason:
            return line, reason
        last = signature.seq
    return None


def _is_hex(text: object, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and _HEX.fullmatch(text) is not None


def _is_spelled(signature: Signature) -> bool:
    """True where every member is of its kind; digits in one spelling only, so that no byte may change."""
    texts = (signature.camera, signature.time)
    hexadecimal = ((signature.hash, 64), (signature.key, 64), (signature.signature, 128))
    return (
        type(signature.seq) is int
        and all(isinstance(text, str) for text in texts)
        and all(_is_hex(text, digits) for text, digits in hexadecimal)
    )
