"""Signed checkpoints of a journal: who holds the key has seen the chain up to here, whole and at this time.

A hash chain shows that a line was changed, but not that somebody has written the whole chain anew or cut its
end off. A signature (Ed25519, RFC 8032) of the last record's number and hash, made every few minutes with a
key that only the daemon reads, shows both, up to that record.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeline.disk import sync_folder
from pipeline.record import ChainEnd, format_time

SCHEMA = "narrated-signature/1"

_DIGITS = 64
_HEX = re.compile(r"[0-9a-f]+")


class SigningError(ValueError):
    """A key or a signature cannot be used; the message says why and never holds a private key."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One line of ``<camera>.signatures``.

    Attributes:
        camera: whose chain.
        seq, hash: of the last record that was there.
        time: when it was signed, ISO 8601 in UTC.
        key: the public key, 64 hexadecimal digits.
        signature: of the canonical JSON of all the others and the schema, 128 hexadecimal digits.
    """

    camera: str
    seq: int
    hash: str
    time: str
    key: str
    signature: str

    def line(self) -> bytes:
        """As canonical JSON, without a line end."""
        return rfc8785.dumps({"schema": SCHEMA, **asdict(self)})

    def spelled(self) -> bool:
        """True where every member is of its kind; digits in one spelling only, so that no byte may change."""
        hexadecimal = ((self.hash, 64), (self.key, 64), (self.signature, 128))
        return (
            type(self.seq) is int
            and all(isinstance(text, str) for text in (self.camera, self.time))
            and all(isinstance(text, str) and _is_hex(text, digits) for text, digits in hexadecimal)
        )

    def holds(self) -> bool:
        """True where the signature is that of the key it names."""
        if not self.spelled():
            return False
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            public.verify(bytes.fromhex(self.signature), _signed(self.camera, self.seq, self.hash, self.time))
        except (ValueError, InvalidSignature):
            return False
        return True


class SigningKey:
    """A private key.

    Raises:
        SigningError: it is no key.
    """

    def __init__(self, text: str) -> None:
        if not _is_hex(text.strip(), _DIGITS):
            raise SigningError(
                "the signing key is not 64 hexadecimal digits: `verify --new-key` makes one"
            )
        self._private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.strip()))
        self.public = self._private.public_key().public_bytes_raw().hex()

    def sign(self, camera: str, end: ChainEnd, time: datetime) -> Signature:
        """Sign the end of a chain."""
        signed_at = format_time(time)
        signature = self._private.sign(_signed(camera, end.seq, end.hash, signed_at)).hex()
        return Signature(camera, end.seq, end.hash, signed_at, self.public, signature)


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
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(line) != len(line):
                    raise OSError("the disk took only a part of the line")  # noqa: TRY301 - undone below
                os.fsync(file.fileno())
                if size == 0:
                    sync_folder(self.path.parent)
            except OSError:
                file.truncate(size)
                raise
        self._last = end.seq
        return True

    def _resume(self) -> int:
        """The number signed last by this key; a line that a crash tore is cut off."""
        if not self.path.exists():
            return 0
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        last = 0
        for _, signature in read_signatures(content[:whole]):
            if isinstance(signature, Signature) and signature.key == self._key.public:
                last = signature.seq
        return last


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


def read_signatures(content: bytes) -> Iterator[tuple[int, Signature | str]]:
    """The signatures in a file, each with its line number; what is none gives the reason instead.

    A last line without its end is left out: its writer was interrupted, or is still writing.
    """
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            members = json.loads(line)
            schema = members.pop("schema")
            signature = Signature(**members)
            whole = schema == SCHEMA and signature.line() == line and signature.spelled()
            fault = "" if whole else "it was written by something else"
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            fault = str(error)
        yield number, f"no signature {SCHEMA}: {fault}" if fault else signature


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and _HEX.fullmatch(text) is not None


def _signed(camera: str, seq: int, digest: str, time: str) -> bytes:
    return rfc8785.dumps({"schema": SCHEMA, "camera": camera, "seq": seq, "hash": digest, "time": time})
