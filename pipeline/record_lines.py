"""Records in their lines; the model, which takes a tenth of a second to load, is loaded for the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.record import Record


def read_record(line: bytes | str) -> Record:
    from pipeline import record  # noqa: PLC0415

    return record.read_record(line)
