"""Time stamps (RFC 3161): an authority outside states that the chain up to a record was there at a time.

What is stamped is the hash of a camera's last record, the SHA-256 of its canonical JSON without ``hash``.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rfc8785

from pipeline.journal.signatures import Attestation
from pipeline.record import Record
from pipeline.record_format import format_time

if TYPE_CHECKING:  # the extra
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

_TIMEOUT_S = 10.0
_LARGEST_BYTES = 100_000
_GRANTED = 0


class TimestampError(Exception):
    """A time stamp cannot be had or does not hold; the message says why."""


class Timestamp(Attestation):
    """A line of ``<camera>.timestamps``: the authority's time and its whole answer (DER in Base64)."""

    suffix, schema_of_file, noun, verb = "timestamps", "narrated-timestamp/1", "time stamp", "stamped"

    response: str

    def fault(self, trusted: Collection[Certificate] = ()) -> str:
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
