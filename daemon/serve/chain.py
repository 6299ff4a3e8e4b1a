"""A record's place in its chain: its hash, its pictures, its signature."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.search.found import FoundRecord
from pipeline.evidence import evidence_fault
from pipeline.journal.signatures import Signature, read_signatures, signatures_path

_SEQ = re.compile(rb'"seq":(\d{1,18})[,}]')

Check = tuple[bool | None, str]
"""``(holds, sentence)``; None where there was nothing to check."""


def check_record(hit: FoundRecord, journals: Path, evidence: Path | None) -> list[Check]:
    """Check one record, its pictures and its signature; `narrated verify` checks all."""
    checks: list[Check] = [(False, mark[0].upper() + mark[1:] + ".") for mark in hit.marks]
    if not any(mark.startswith("does not verify") for mark in hit.marks):
        checks.insert(0, (True, "Its hash holds, and it continues the record before it."))
    return [*checks, _check_pictures(hit, evidence), _check_signature(hit, journals)]


def _check_pictures(hit: FoundRecord, evidence: Path | None) -> Check:
    named = hit.record.evidence
    references = list(named.model_dump(exclude_none=True).values()) if named else []
    if not references:
        return None, "It names no pictures."
    faults = [fault for reference in references if (fault := evidence_fault(evidence, reference))]
    if changed := sum("was changed" in fault for fault in faults):
        return False, f"{changed} of its {len(references)} pictures were changed since."
    if faults:
        return None, f"{len(faults)} of its {len(references)} pictures are not there any more."
    return True, "Its pictures are those that it names."


def _check_signature(hit: FoundRecord, journals: Path) -> Check:
    record = hit.record
    try:
        lines = signatures_path(journals, record.camera).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return None, "Records of its camera are not signed."
    except OSError as error:
        return None, f"The signatures of its camera cannot be read: {error.strerror}."
    # There may be a hundred thousand: only the one that counts is parsed.
    numbered = ((int(number[1]), line) for line in lines if (number := _SEQ.search(line)))
    seq, line = next(((seq, line) for seq, line in numbered if seq >= record.seq), (0, b""))
    if not line:
        return None, "It is not signed yet."
    ((_, signature),) = read_signatures(line + b"\n")
    other = isinstance(signature, Signature) and seq == record.seq and signature.hash != record.hash
    if isinstance(signature, str) or signature.fault(record.camera) or other:
        return False, f"The signature of record {seq:,} does not hold."
    where = "It is signed" if seq == record.seq else f"Record {seq:,}, after it, is signed"
    return True, f"{where}: {signature.time[:16].replace('T', ' ')} UTC, key {signature.key[:8]}…"
