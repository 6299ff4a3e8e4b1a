"""What is known of a record's place in its chain: its hash, its pictures, who has signed it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from daemon.search.found import FoundRecord
from pipeline.evidence import evidence_fault
from pipeline.journal.signatures import Signature, read_signatures, signatures_path

_SEQ = re.compile(rb'"seq":(\d{1,18})[,}]')


@dataclass(frozen=True, slots=True)
class ChainState:
    """What holds of a record.

    Attributes:
        sound: nothing is known to be wrong.
        lines: ``(whether it holds, what was looked at)``; None where there was nothing to look at.
    """

    sound: bool
    lines: tuple[tuple[bool | None, str], ...]


def chain_state(found: FoundRecord, journals: Path, evidence: Path | None) -> ChainState:
    """Look at a record, its pictures and the signatures of its camera; `narrated verify` looks at all."""
    broken = [mark for mark in found.marks if mark.startswith("does not verify")]
    lines: list[tuple[bool | None, str]] = [(False, mark[0].upper() + mark[1:] + ".") for mark in broken]
    if not broken:
        lines.append((True, "Its hash holds, and it continues the record before it."))
    lines += [(False, mark[0].upper() + mark[1:] + ".") for mark in found.marks if mark not in broken]
    lines.append(_pictures(found, evidence))
    lines.append(_signed(found, journals))
    return ChainState(all(holds is not False for holds, _ in lines), tuple(lines))


def _pictures(found: FoundRecord, evidence: Path | None) -> tuple[bool | None, str]:
    named = found.record.evidence
    references = [r for r in (named.before, named.after, named.overlay) if r] if named else []
    if not references:
        return None, "It names no pictures."
    faults = [fault for reference in references if (fault := evidence_fault(evidence, reference))]
    if not faults:
        return True, "Its pictures are those that it names."
    changed = sum("was changed" in fault for fault in faults)
    if changed:
        return False, f"{changed} of its {len(references)} pictures were changed since."
    return None, f"{len(faults)} of its {len(references)} pictures are not there any more."


def _signed(found: FoundRecord, journals: Path) -> tuple[bool | None, str]:
    record = found.record
    try:
        lines = signatures_path(journals, record.camera).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return None, "Records of its camera are not signed."
    except OSError as error:
        return None, f"The signatures of its camera cannot be read: {error.strerror}."
    covering = next((line for line in lines if _seq(line) >= record.seq), None)
    if covering is None:
        return None, "It is not signed yet."
    ((_, signature),) = read_signatures(covering + b"\n")
    if not (isinstance(signature, Signature) and _holds(signature, found)):
        return False, f"The signature of record {_seq(covering):,} does not hold."
    where = (
        "It is signed" if signature.seq == record.seq else f"Record {signature.seq:,}, after it, is signed"
    )
    return True, f"{where}: {signature.time[:16].replace('T', ' ')} UTC, key {signature.key[:8]}…"


def _seq(line: bytes) -> int:
    """The number of the last record that a line signs, without reading it whole: there may be thousands."""
    found = _SEQ.search(line)
    return int(found[1]) if found else 0


def _holds(signature: Signature, found: FoundRecord) -> bool:
    own = signature.seq == found.record.seq
    same = signature.camera == found.record.camera and (not own or signature.hash == found.record.hash)
    return same and not signature.fault(found.record.camera)
