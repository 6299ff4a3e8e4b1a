"""Signed checkpoints of a journal: the holder of the key vouches for the chain up to a record and a time.

A hash chain shows that a line was changed, but not that the chain was rewritten or cut off at its beginning
or end. A signature (Ed25519, RFC 8032) of the last record's number and hash, made every few minutes with a
key that only the daemon reads, shows that up to the record; one of the anchor, where retention has left the
beginning, shows that the records before it were deleted by the daemon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pipeline.disk import append_durably, sync_folder
from pipeline.journal.segments import Start
from pipeline.record import ChainEnd, Digest, format_time

CHECKPOINT, START = "narrated-signature/1", "narrated-start/1"
"""What is signed: the end of a chain, or where it begins."""

_KEY = re.compile(r"\s*([0-9a-f]{64})\s*")


class SigningError(ValueError):
    """A key or a signature cannot be used; the message says why and never holds a private key."""


class Signature(BaseModel):
    """One line of ``<camera>.signatures``, or that of ``<camera>.start``.

    Attributes:
        schema_: `CHECKPOINT` or `START`.
        camera: whose chain.
        seq, hash: of the last record that was there, or was deleted.
        time: when it was signed, ISO 8601 in UTC.
        key: the public key.
        signature: of the canonical JSON of all the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Annotated[str, Field(alias="schema")]
    camera: str
    seq: int
    hash: Digest
    time: str
    key: Digest
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]

    def line(self) -> bytes:
        return rfc8785.dumps(self.model_dump(by_alias=True))

    def fault(self, camera: str, keys: Collection[str] = ()) -> str:
        """Why it is no signature of the camera's chain by one of the keys; empty where it is one."""
        if keys and self.key not in keys:
            return f"signed with the key {self.key}, which is not among the keys given"
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            public.verify(bytes.fromhex(self.signature), _message(self.model_dump(by_alias=True)))
        except (ValueError, InvalidSignature):
            return "the signature does not match: the line was changed"
        return "" if self.camera == camera else f"it belongs to {self.camera}"


def _message(members: Mapping[str, Any]) -> bytes:
    return rfc8785.dumps({name: members[name] for name in ("schema", "camera", "seq", "hash", "time")})


class SigningKey:
    """A private key; its text raises `SigningError` where it is none."""

    def __init__(self, text: str) -> None:
        if not (key := _KEY.fullmatch(text)):
            raise SigningError("the signing key is not 64 hexadecimal digits: `verify --new-key` makes one")
        self._private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key[1]))
        self.public = self._private.public_key().public_bytes_raw().hex()

    def sign(self, camera: str, end: ChainEnd, time: datetime, schema: str = CHECKPOINT) -> Signature:
        members = {"schema": schema, "camera": camera, "seq": end.seq, "hash": end.hash}
        members |= {"time": format_time(time), "key": self.public}
        signature = self._private.sign(_message(members)).hex()
        return Signature.model_validate({**members, "signature": signature})

    def sign_start(self, camera: str, deleted: ChainEnd) -> Start:
        """The signed anchor of a chain whose last deleted record is `deleted`."""
        signature = self.sign(camera, deleted, datetime.now(UTC), START)
        return Start(deleted.seq, deleted.hash, signature.line())


class Signatures:
    """Appends the signatures of one camera's journal to ``<camera>.signatures``; for one thread."""

    def __init__(self, folder: Path, camera: str, key: SigningKey) -> None:
        self.path = folder / f"{camera}.signatures"
        self._camera, self._key = camera, key
        self._last: int | None = None

    def add(self, end: ChainEnd) -> bool:
        """Sign the end of the chain, durably; False where it is signed already, or empty.

        Raises:
            OSError: it cannot be written; what was there is unchanged.
        """
        if self._last is None:
            self._last = self._resume()
        if end.seq <= self._last:
            return False
        append_durably(self.path, self._key.sign(self._camera, end, datetime.now(UTC)).line() + b"\n")
        self._last = end.seq
        return True

    def _resume(self) -> int:
        """The number signed last by this key; a line that a crash tore is cut off."""
        if not self.path.exists():
            return 0
        sync_folder(self.path.parent)  # who made the file may have been killed before that
        content = self.path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            os.truncate(self.path, complete)
        signed = [each for each in read_signatures(content[:complete]) if isinstance(each, Signature)]
        return max((each.seq for each in signed if each.key == self._key.public), default=0)


def new_key() -> str:
    """A fresh private key as text, from the system's random numbers."""
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


def public_key(text: str) -> str:
    """The public key in a text; raises `SigningError` where it is none."""
    if not (key := _KEY.fullmatch(text)):
        raise SigningError(
            f"{text.strip()!r} is not a public key: 64 hexadecimal digits, as `verify --new-key` prints"
        )
    return key[1]


def read_signatures(content: bytes, schema: str = CHECKPOINT) -> list[Signature | str]:
    """The signatures in a file, one a line; what is none gives the reason instead.

    A last line without its end is left out: its writer was interrupted, or is still writing.
    """
    signatures = list[Signature | str]()
    for line in content.split(b"\n")[:-1]:
        signatures.append(f"no signature {schema}: it was written by something else")
        with suppress(ValueError):
            signature = Signature.model_validate_json(line)
            if signature.schema_ == schema and signature.line() == line:
                signatures[-1] = signature
    return signatures


def load_signatures(folder: Path, camera: str) -> list[Signature]:
    """The signatures of a camera's journal that can be read; empty where there are none."""
    path = folder / f"{camera}.signatures"
    signatures = read_signatures(path.read_bytes()) if path.exists() else []
    return [each for each in signatures if isinstance(each, Signature)]


def find_fault(
    signatures: Collection[Signature | str],
    camera: str,
    hashes: Mapping[int, str],
    end: ChainEnd | None,
    keys: Collection[str] = (),
) -> tuple[int, str] | None:
    """The first line of a camera's signatures that does not bear its chain out, and why.

    Args:
        signatures: of `read_signatures`.
        camera: whose chain.
        hashes: of the records that were signed, by number; empty where one is gone.
        end: of the chain; None where it does not hold to its end, which is then not compared.
        keys: public keys that may have signed; empty allows any.
    """
    last = 0
    for line, signature in enumerate(signatures, 1):
        if isinstance(signature, str):
            return line, signature
        reason = signature.fault(camera, keys)
        if not reason and signature.seq < last:
            reason = f"it signs {signature.seq} after {last}"
        if not reason and (hashes.get(signature.seq) or signature.hash) != signature.hash:
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
