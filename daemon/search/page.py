"""Found narrations as cards of a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from daemon.questions.local_time import LocalTime
from daemon.search.found import FoundRecord
from pipeline.report.card import Card
from pipeline.report.pages import file_data_url


def card_of(
    found: FoundRecord, local: LocalTime, address: Callable[[Path], str] = file_data_url, clip: str = ""
) -> Card:
    """The card of one; `address` gives that of a picture's file, empty where it is gone."""
    pictures = {side: where for side, path in found.pictures.items() if (where := address(path))}
    place = f"#r-{found.record.id}"
    return Card(found.record, local.zone, pictures, place, found.marks, clip=clip)
