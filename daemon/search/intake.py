"""Lines of a journal's file as rows of the index."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from daemon.questions.facts import UNTIL_THE_NEXT, facts_of, gap_of, time_of
from daemon.questions.words import ARRIVALS, DEPARTURES
from pipeline.record import RecordError, hash_holds, read_record

Row = tuple[object, ...]


class Intake:
    """Lines of a file on their way into the index, within a transaction.

    Args:
        db: of the index.
        file: its number.
        lines: how many were read before.

    Attributes:
        records: rows of those of the lines that are records.
        fault: the first line that does not hold, and why; mostly empty.
    """

    def __init__(self, db: sqlite3.Connection, file: int, lines: int) -> None:
        self.lines, self.fault = lines, ""
        self.records, self._sentences, self._gaps = list[Row](), list[Row](), list[Row]()
        self._db, self._file = db, file
        sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'records'"
        (self._newest,) = db.execute(sql).fetchone()

    def add(self, raw: bytes, offset: int) -> None:
        """Take a line that begins at a byte of the file."""
        self.lines += 1
        holds = hash_holds(raw[:-1])
        try:
            if not holds:
                read_record(raw)  # a line that carries its hash was written by narrated
            members = json.loads(raw)
            time, digest = time_of(members["after"]["time"]), bytes.fromhex(members["hash"])[:8]
            camera, key = str(members["camera"]), key_of(members["id"])
            record = self._newest + len(self.records) + 1
            facts, gap = facts_of(members, time, record), gap_of(members, time)
            visits = [_visit(each, camera, time) for each in members["sentences"] or [{}]]
        except (RecordError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            self.fault = self.fault or f"{self.lines}: no record: the line was changed, or another program's"
            return
        if not holds:
            self.fault = self.fault or f"{self.lines}: the hash does not match: the line was changed"
        held = bool(members.get("held"))
        self.records.append((record, self._file, offset, len(raw), digest, key, time, camera, held))
        for n, ((_, _, *row, _, text), visit) in enumerate(zip(facts, visits, strict=True)):
            visit_id = self._visit(visit) if visit else None
            self._sentences.append((record, n, time, camera, *row, visit_id, self._text(text)))
        if gap:
            self._gaps.append((record, camera, *gap))

    def save(self) -> None:
        """Write what was taken."""
        for table, rows in (("records", self.records), ("sentences", self._sentences), ("gaps", self._gaps)):
            if rows:
                self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        if self._gaps:
            sql = (
                "UPDATE gaps AS g SET end = coalesce((SELECT min(n.begin) FROM gaps n "
                "WHERE n.camera = g.camera AND n.reason = 'mask' AND n.record > g.record), end) "
                "WHERE reason = 'mask' AND end = ?"
            )
            self._db.execute(sql, (UNTIL_THE_NEXT,))

    def _visit(self, row: Row) -> int:
        sql = (
            "INSERT INTO visits (camera, track, object, begin, end, last) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (camera, track) DO UPDATE SET object = excluded.object, "
            "begin = min(begin, excluded.begin), end = coalesce(excluded.end, end), "
            "last = max(last, excluded.last) RETURNING id"
        )
        return int(self._db.execute(sql, row).fetchone()[0])

    def _text(self, text: str) -> int:
        sql = "INSERT INTO texts (text) VALUES (?) ON CONFLICT DO UPDATE SET text = text RETURNING id"
        return int(self._db.execute(sql, (text,)).fetchone()[0])


def key_of(identity: str) -> bytes:
    """Eight bytes that locate the record of an id."""
    return hashlib.sha256(identity.encode()).digest()[:8]


def _visit(sentence: Mapping[str, Any], camera: str, time: int) -> Row | None:
    """Camera, track, object, begin, end and last sign of a visit, as far as a sentence says."""
    if not sentence.get("track"):
        return None
    at = time_of(sentence["time"]) if sentence.get("time") else time
    begin, end = at, None
    if sentence["type"] in DEPARTURES:
        end = time_of(sentence["until"]) if sentence.get("until") else at
        begin = end - round((sentence.get("duration_s") or 0) * 1_000_000)
    if sentence.get("since") and sentence["type"] in (*ARRIVALS, *DEPARTURES):
        begin = min(begin, time_of(sentence["since"]))
    return camera, sentence["track"], sentence["object"], begin, end, at
