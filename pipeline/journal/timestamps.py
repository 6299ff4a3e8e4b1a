"""Time stamps (RFC 3161): an authority outside states that the chain up to a record was there at a time.

What is stamped is the hash of a camera's last record, which is the SHA-256 of its canonical JSON without
``hash``. Later records are not covered, earlier ones are: nobody can put one in, or change one, and date it
back beyond the next stamp, not even with the daemon's own key.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.disk import append_durably
from pipeline.record import Digest, Record, format_time

if TYPE_CHECKING:  # the extra
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

SCHEMA = "narrated-timestamp/1"

_TIMEOUT_S = 10.0
_LARGEST_BYTES = 100_000
_GRANTED = 0


class TimestampError(Exception):
    """A time stamp cannot be had or does not hold; the message says why."""


class Timestamp(BaseModel):
    """One line of ``<camera>.timestamps``.

    Attributes:
        seq, hash: of the record.
        time: by the authority, ISO 8601 in UTC.
        response: the authority's whole answer, DER in Base64; ``openssl ts`` reads it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Annotated[str, Field(alias="schema", pattern=f"^{SCHEMA}$")]
    camera: str
    seq: int
    hash: Digest
    time: str
    response: str

    def line(self) -> bytes:
        """Canonical JSON, without a line end."""
        return rfc8785.dumps(self.model_dump(by_alias=True))

    def fault(self, roots: Collection[Certificate]) -> str:
        """Why the authority does not vouch for it; empty where it does.

        Args:
            roots: certificates of authorities that are trusted.
        """
        from rfc3161_client import VerificationError, VerifierBuilder  # noqa: PLC0415

        try:
            answer = _decode(base64.b64decode(self.response, validate=True))
            VerifierBuilder(roots=list(roots)).build().verify(answer, bytes.fromhex(self.hash))
        except (TimestampError, VerificationError, ValueError) as error:
            return f"the time stamp of record {self.seq} does not hold: {error}"
        if format_time(answer.tst_info.gen_time) != self.time:
            return f"the time stamp of record {self.seq} is of {format_time(answer.tst_info.gen_time)}"
        return ""


class TimestampAuthority:
    """A server of time stamps.

    Args:
        url: ``http://`` or ``https://``.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def stamp(self, record: Record) -> Timestamp:
        """Have the record's hash stamped; waits for the network.

        Raises:
            TimestampError: the server does not answer, refuses, or answers something else.
            ModuleNotFoundError: the extra ``timestamps`` is not installed.
        """
        from urllib.request import Request, urlopen  # noqa: PLC0415 - 15 ms that verifying need not wait

        from rfc3161_client import HashAlgorithm, TimestampRequestBuilder  # noqa: PLC0415

        members = record.members()
        del members["hash"]
        asked = TimestampRequestBuilder(rfc8785.dumps(members), HashAlgorithm.SHA256).build()
        headers = {"Content-Type": "application/timestamp-query"}
        request = Request(self._url, asked.as_bytes(), headers)  # noqa: S310 - checked with the configuration
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                content = response.read(_LARGEST_BYTES)
        except OSError as error:
            raise TimestampError(f"the time stamp server does not answer: {error}") from None
        answer = _decode(content)
        stamped = answer.tst_info.message_imprint.message
        if stamped != bytes.fromhex(record.hash) or answer.tst_info.nonce != asked.nonce:
            raise TimestampError("the time stamp server has answered another request")
        members = {
            "schema": SCHEMA,
            "camera": record.camera,
            "seq": record.seq,
            "hash": record.hash,
            "time": format_time(answer.tst_info.gen_time),
            "response": base64.b64encode(content).decode(),
        }
        return Timestamp.model_validate(members)


def _decode(content: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response  # noqa: PLC0415

    try:
        answer = decode_timestamp_response(content)
        granted = answer.status == _GRANTED
    except ValueError:
        raise TimestampError("that is no time stamp") from None
    if not granted:
        raise TimestampError(f"the time stamp server refuses: {'; '.join(answer.status_string)}")
    return answer


def timestamps_path(folder: Path, camera: str) -> Path:
    """Where the time stamps of a camera's journal are."""
    return folder / f"{camera}.timestamps"


def append_timestamp(folder: Path, stamp: Timestamp) -> None:
    """Write a time stamp to the disk; a line that a crash tore is cut off.

    Raises:
        OSError: the folder cannot be written.
    """
    path = timestamps_path(folder, stamp.camera)
    content = path.read_bytes() if path.exists() else b""
    if not content.endswith(b"\n") and content:
        os.truncate(path, content.rfind(b"\n") + 1)
    append_durably(path, stamp.line() + b"\n")


def read_timestamps(content: bytes) -> Iterator[tuple[int, Timestamp | str]]:
    """The time stamps in a file, each with its line number; what is none gives the reason instead."""
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            stamp = Timestamp.model_validate_json(line)
        except ValidationError:
            yield number, f"no time stamp {SCHEMA}: it was written by something else"
            continue
        yield number, stamp if stamp.line() == line else "not canonical: the line was changed"


def load_timestamps(folder: Path, camera: str) -> list[Timestamp]:
    """The time stamps of a camera's journal that can be read; empty where there are none."""
    path = timestamps_path(folder, camera)
    stamps = read_timestamps(path.read_bytes()) if path.exists() else ()
    return [stamp for _, stamp in stamps if isinstance(stamp, Timestamp)]


def find_timestamp_fault(
    lines: Collection[tuple[int, Timestamp | str]],
    camera: str,
    hashes: Mapping[int, str],
    roots: Collection[Certificate] = (),
) -> tuple[int, str] | None:
    """The first line of a camera's time stamps that does not bear its chain out, and why.

    Args:
        lines: of `read_timestamps`.
        camera: whose chain.
        hashes: of the chain's records, by number; empty where one is gone.
        roots: certificates of authorities that are trusted; without any, times are not checked.
    """
    for line, stamp in lines:
        if isinstance(stamp, str):
            return line, stamp
        reason = "" if stamp.camera == camera else f"it belongs to {stamp.camera}"
        if not reason and (hashes.get(stamp.seq) or stamp.hash) != stamp.hash:
            reason = f"record {stamp.seq} is not the one that was stamped at {stamp.time}"
        if not reason and roots:
            reason = stamp.fault(roots)
        if reason:
            return line, reason
    return None


def load_roots(path: Path) -> tuple[Certificate, ...]:
    """The certificates in a PEM file.

    Raises:
        TimestampError: it cannot be read or holds none.
    """
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    try:
        return tuple(load_pem_x509_certificates(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise TimestampError(f"{path} holds no certificates in PEM: {error}") from None
