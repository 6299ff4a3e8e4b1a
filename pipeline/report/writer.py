"""Collects narrations and their pictures, and writes the report's files."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pipeline.disk import replacing
from pipeline.record import Record
from pipeline.report.card import Card
from pipeline.report.facts import ReportFacts
from pipeline.report.pages import embedded, records_page
from pipeline.report.picture import encode
from pipeline.report.subtitles import subtitles
from pipeline.report.summary import summary
from pipeline.sources import Image
from pipeline.sources.picture import shrink

_WIDTH = 600
PICTURES = ".pictures"
"""The hidden file in a folder where pictures wait until all narrations are there."""
_HEAD = struct.Struct("64sII")
"""Of an entry there: the record's hash, and how many bytes its two pictures have."""


class ReportWriter:
    """Writes ``narrations.jsonl``, ``narrations.vtt`` and ``report.html`` into a folder.

    Pictures are shrunk and compressed as they come and wait in a hidden file in the folder, so
    that an archive of any length needs no more memory than its records. For one thread.

    Args:
        folder: made if it is missing.
        resume: keep the pictures that an earlier writer left there, for `restore`.

    Raises:
        OSError: the folder cannot be written (any method).
    """

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._records: dict[str, list[Record]] = {}
        self._places: dict[str, tuple[int, int, int]] = {}
        path = folder / PICTURES
        self._pictures = path.open("r+b" if resume and path.exists() else "w+b")
        self._find_pictures()

    def close(self, *, keep: bool = False) -> None:
        """Drop the pictures, or keep them for another writer; what `finish` wrote stays."""
        self._pictures.close()
        if not keep:
            (self.folder / PICTURES).unlink(missing_ok=True)

    def restore(self, records: Sequence[Record]) -> bool:
        """Take a camera's records; False, and none, if a picture of theirs was not kept."""
        if not all(record.hash in self._places for record in records):
            return False
        if records:
            self._records[records[0].camera] = list(records)
        return True

    def flush(self) -> None:
        """Pictures taken so far outlive this process."""
        self._pictures.flush()

    def add(self, record: Record, before: Image, after: Image) -> None:
        """Take a record and the images of its pair; records of one camera come in their order.

        Args:
            record: as it was journalled.
            before: RGB uint8 ``(height, width, 3)`` at any size.
            after: the same.
        """
        encoded = [encode(shrink(image, _WIDTH)) for image in (before, after)]
        offset = self._pictures.seek(0, 2) + _HEAD.size
        sizes = len(encoded[0]), len(encoded[1])
        self._pictures.write(_HEAD.pack(record.hash.encode(), *sizes) + b"".join(encoded))
        self._places[record.hash] = (offset, *sizes)
        self._records.setdefault(record.camera, []).append(record)

    def take_pictures(self, entries: bytes) -> None:
        """Take the whole file of pictures of another writer; `restore` then takes its records."""
        self._pictures.seek(0, 2)
        self._pictures.write(entries)
        self._find_pictures()

    def finish(self, facts: ReportFacts) -> None:
        """Write all files, each as a whole or not at all."""
        starts = {
            camera: facts.starts.get(camera) or records[0].before.moment
            for camera, records in self._records.items()
        }
        self._write_subtitles(starts)
        merged = in_time_order(self._records.values())
        _write(self.folder / "narrations.jsonl", (record.line().decode() + "\n" for record in merged))
        cards = (self._card(record, starts) for record in merged)
        _write(self.folder / "report.html", records_page(summary(merged, facts), cards))

    def _find_pictures(self) -> None:
        """Find what is whole in the file of pictures; what a kill has cut off at its end goes."""
        end, size = 0, self._pictures.seek(0, 2)
        while end + _HEAD.size <= size:
            self._pictures.seek(end)
            digest, before, after = _HEAD.unpack(self._pictures.read(_HEAD.size))
            offset = end + _HEAD.size
            if offset + before + after > size:
                break
            self._places[digest.decode()] = (offset, before, after)
            end = offset + before + after
        self._pictures.truncate(end)

    def _write_subtitles(self, starts: Mapping[str, datetime]) -> None:
        """``narrations.vtt`` for one camera, ``<camera>.vtt`` for each of several."""
        if not self._records:
            _write(self.folder / "narrations.vtt", ["WEBVTT\n"])
        for camera, records in self._records.items():
            name = camera if len(self._records) > 1 else "narrations"
            _write(self.folder / f"{name}.vtt", [subtitles(records, starts[camera])])

    def _card(self, record: Record, starts: Mapping[str, datetime]) -> Card:
        offset, before, after = self._places[record.hash]
        self._pictures.seek(offset)
        pictures = {
            "before": embedded(self._pictures.read(before)),
            "after": embedded(self._pictures.read(after)),
        }
        since = (record.after.moment - starts[record.camera]).total_seconds()
        return Card(record, pictures=pictures, address=f"#r-{record.id}", offset_s=since)


def in_time_order(cameras: Iterable[list[Record]]) -> list[Record]:
    """The records of several cameras by after time, then camera.

    A camera's own order stays even where its clock stepped back: its chain must hold in the merged file.
    """

    def keyed(records: list[Record]) -> Iterator[tuple[str, str, int, Record]]:
        latest = ""
        for record in records:
            latest = max(latest, record.after.time)
            yield latest, record.camera, record.seq, record

    return [record for *_, record in heapq.merge(*map(keyed, cameras), key=lambda k: k[:3])]


def _write(path: Path, parts: Iterable[str]) -> None:
    """Replace the file as a whole: a reader never sees half of it."""
    with replacing(path, durable=False) as file:
        file.writelines(part.encode() for part in parts)
