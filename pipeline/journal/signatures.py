"""Attestations of a journal: a key, or an authority, vouches for the chain up to a record and a time.

A signature (Ed25519, RFC 8032) is of the last record's number and hash, made every few minutes with a key
that only the daemon reads, or of the anchor, where retention has left the beginning. A time stamp (RFC 3161)
is an outside authority's, of the hash of the last record: the SHA-256 of its canonical JSON without ``hash``.
"""

from __future__ import annotations

import base64
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pipeline.disk import append_to, appending
from pipeline.journal.segments import cut_torn
from pipeline.record import Digest, Record
from pipeline.record_format import ChainEnd, format_time

if TYPE_CHECKING:  # few journals are signed, and time stamps need an extra
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

CHECKPOINT, START = "narrated-signature/1", "narrated-start/1"  # of a chain's end or beginning
_TIMEOUT_S = 10.0
_LARGEST_BYTES = 100_000
_GRANTED = 0
_KEY = re.compile(r"\s*([0-9a-f]{64})\s*")


class SigningError(ValueError):
    """A key or a signature cannot be used; the message says why and never holds a private key."""


class Attestation(BaseModel, ABC):
    """One line of ``<camera>.<suffix>``, in canonical JSON: the chain up to a record was there at a time."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    suffix: ClassVar[str]
    schema_of_file: ClassVar[str]
    noun: ClassVar[str]
    verb: ClassVar[str]

    schema_: Annotated[str, Field(alias="schema")]
    camera: str
    seq: int  # both of the record
    hash: Digest
    time: str  # ISO 8601 in UTC

    @abstractmethod
    def fault(self, trusted: Collection[Any] = ()) -> str:
        """Why the line does not hold by itself; empty where it does. Nobody `trusted` takes anybody."""

    def line(self) -> bytes:
        return rfc8785.dumps(self.model_dump(by_alias=True))

    @classmethod
    def file(cls, folder: Path, camera: str) -> Path:
        return folder / f"{camera}.{cls.suffix}"

    @classmethod
    def read(cls, content: bytes, schema: str = "") -> list[Self | str]:
        """The lines of a file; where one is not canonical or of another schema, the reason instead.

        A last line without its end is left out: its writer was interrupted, or is still writing.
        """
        schema, lines = schema or cls.schema_of_file, list[Self | str]()
        for raw in content.split(b"\n")[:-1]:
            lines.append(f"no {cls.noun} {schema}: it was written by something else")
            with suppress(ValueError):
                each = cls.model_validate_json(raw)
                if each.schema_ == schema and each.line() == raw:
                    lines[-1] = each
        return lines

    @classmethod
    def read_file(cls, folder: Path, camera: str) -> list[Self | str]:
        path = cls.file(folder, camera)
        return cls.read(path.read_bytes()) if path.is_file() else []

    @classmethod
    def load(cls, folder: Path, camera: str) -> list[Self]:
        return [each for each in cls.read_file(folder, camera) if not isinstance(each, str)]

    def append(self, folder: Path) -> None:
        """Write the line to the file of its camera, durably; a torn last line is cut off."""
        with appending(self.file(folder, self.camera)) as handle:
            cut_torn(handle)
            append_to(handle, self.line() + b"\n")


class Signature(Attestation):
    """A line of ``<camera>.signatures`` or ``.start``; it signs the canonical JSON of the members above."""

    suffix, schema_of_file, noun, verb = "signatures", CHECKPOINT, "signature", "signed"

    key: Digest
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]

    def fault(self, trusted: Collection[str] = ()) -> str:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - few journals are signed
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        if trusted and self.key not in trusted:
            return f"signed with the key {self.key}, which is not among the keys given"
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            public.verify(bytes.fromhex(self.signature), _message(self.model_dump(by_alias=True)))
        except (ValueError, InvalidSignature):
            return "the signature does not match: the line was changed"
        return ""


def _message(members: Mapping[str, Any]) -> bytes:
    return rfc8785.dumps({name: members[name] for name in ("schema", "camera", "seq", "hash", "time")})


class SigningKey:
    """A private key; its text raises `SigningError` where it is none."""

    def __init__(self, text: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        if not (key := _KEY.fullmatch(text)):
            raise SigningError("the signing key is not 64 hexadecimal digits: `verify --new-key` makes one")
        self._private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key[1]))
        self.public = self._private.public_key().public_bytes_raw().hex()

    def sign(self, camera: str, end: ChainEnd, schema: str = CHECKPOINT) -> Signature:
        members = {"schema": schema, "camera": camera, "seq": end.seq, "hash": end.hash}
        members |= {"time": format_time(datetime.now(UTC)), "key": self.public}
        signature = self._private.sign(_message(members)).hex()
        return Signature.model_validate({**members, "signature": signature})

    def sign_start(self, camera: str, deleted: ChainEnd) -> bytes:
        return self.sign(camera, deleted, START).line()


def new_key() -> str:
    return os.urandom(32).hex()


def public_key(text: str) -> str:
    """The public key in a text; raises `SigningError` where it is none."""
    if not (key := _KEY.fullmatch(text)):
        raise SigningError(f"{text.strip()!r} is not a public key, as `verify --new-key` prints one")
    return key[1]


class TimestampError(Exception):
    """A time stamp cannot be had or does not hold; the message says why."""


class Timestamp(Attestation):
    """A line of ``<camera>.timestamps``: the authority's time and its whole answer (DER in Base64)."""

    suffix, schema_of_file, noun, verb = "timestamps", "narrated-timestamp/1", "time stamp", "stamped"

    response: str

    def fault(self, trusted: Collection[Any] = ()) -> str:
        if not trusted:
            return ""
        from rfc3161_client import VerificationError, VerifierBuilder  # noqa: PLC0415

        try:
            answer = _decode(base64.b64decode(self.response, validate=True))
            VerifierBuilder(roots=list(trusted)).build().verify(answer, bytes.fromhex(self.hash))
        except (TimestampError, VerificationError, ValueError) as error:
            return f"the time stamp of record {self.seq} does not hold: {error}"
        if format_time(answer.tst_info.gen_time) != self.time:
            return f"the time stamp of record {self.seq} is of {format_time(answer.tst_info.gen_time)}"
        return ""


def request_timestamp(url: str, record: Record) -> Timestamp:
    """Have a record's hash stamped by a server; raises `TimestampError` or `ModuleNotFoundError`."""
    from http.client import HTTPException  # noqa: PLC0415 - 15 ms that verifying need not wait
    from urllib.request import Request, urlopen  # noqa: PLC0415

    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder  # noqa: PLC0415

    unhashed = record.members()
    del unhashed["hash"]
    asked = TimestampRequestBuilder(rfc8785.dumps(unhashed), HashAlgorithm.SHA256).build()
    headers = {"Content-Type": "application/timestamp-query"}
    request = Request(url, asked.as_bytes(), headers)  # noqa: S310 - checked with the configuration
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            content = response.read(_LARGEST_BYTES)
    except OSError as error:
        raise TimestampError(f"the time stamp server does not answer: {error}") from None
    except (HTTPException, ValueError) as error:
        raise TimestampError(f"the time stamp server sends no HTTP response: {error!r}") from None
    answer = _decode(content)
    stamped = answer.tst_info.message_imprint.message
    if stamped != bytes.fromhex(record.hash) or answer.tst_info.nonce != asked.nonce:
        raise TimestampError("the time stamp server has answered another request")
    members: dict[str, Any] = {
        "schema": Timestamp.schema_of_file,
        "response": base64.b64encode(content).decode(),
    }
    members |= {"camera": record.camera, "seq": record.seq, "hash": record.hash}
    return Timestamp.model_validate(members | {"time": format_time(answer.tst_info.gen_time)})


def _decode(content: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response  # noqa: PLC0415

    try:
        answer = decode_timestamp_response(content)
        if answer.status == _GRANTED and answer.tst_info:
            return answer
    except ValueError:  # also where it grants, and gives none
        raise TimestampError("that is no time stamp") from None
    raise TimestampError(f"the time stamp server refuses: {'; '.join(answer.status_string)}")


def load_roots(path: Path) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    try:
        return tuple(load_pem_x509_certificates(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise TimestampError(f"{path} holds no certificates in PEM: {error}") from None
