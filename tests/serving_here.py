"""A state folder with narrations and pictures, and `narrated serve` in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import cv2
import httpx
import numpy as np
from forked_commands import forker
from narrations import narration

from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.record import Evidence, Record, read_record

ROOT = Path(__file__).parents[1]
MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)
LIMIT_S = 30.0
BOX = (0.4, 0.2, 0.2, 0.5)


def identity(camera: str, second: float) -> str:
    """As `pipeline.narration` makes them."""
    moment = MIDNIGHT + timedelta(seconds=second)
    digest = f"{abs(hash((camera, second))):012x}"[:12]
    return f"{camera}-{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z-{digest}"


def said(text: str, kind: str = "appeared", thing: str = "person", **more: Any) -> Sentence:
    sides = {"appeared": {"after": BOX}, "disappeared": {"before": BOX}}.get(kind, {})
    return Sentence(text, kind, thing, BOX, 0.7, more.pop("confidence", 0.9), **{**sides, **more})


@dataclass
class ServedHouse:
    """A state folder, filled journal by journal.

    Attributes:
        folder: of the journals.
        records: by camera, in their order.
    """

    state: Path
    records: dict[str, list[Record]] = field(default_factory=dict)
    _journals: dict[str, Journal] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.state / "journal"

    def tell(self, second: float, *sentences: Sentence, camera: str = "yard", **changed: Any) -> Record:
        if camera not in self._journals:
            self._journals[camera] = Journal(self.folder, camera, fsync=False)
        evidence = changed.pop("evidence", None)
        told = {"sentences": sentences} if sentences else {}
        made = narration(second, camera, **{"id": identity(camera, second), **told, **changed})
        record = self._journals[camera].append(made, evidence=evidence)
        record = record if isinstance(record, Record) else self._last(camera)
        self.records.setdefault(camera, []).append(record)
        return record

    def _last(self, camera: str) -> Record:
        return read_record((self.folder / f"{camera}.jsonl").read_bytes().splitlines()[-1])

    def pictures(self, shade: int = 0) -> Evidence:
        """A pair that differs by a bright thing."""
        before = np.full((120, 160, 3), 70 + shade, np.uint8)
        after = before.copy()
        after[24:84, 64:96] = (200, 120, 60)
        store = EvidenceStore(self.state / "evidence", fsync=False)
        jpegs = (bytes(cv2.imencode(".jpg", image)[1]) for image in (before, after))
        return Evidence(**dict(zip(("before", "after"), (store.put(j, "jpg") for j in jpegs), strict=True)))

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()


class Served:
    """`narrated serve`, until the context ends.

    Attributes:
        url: of the page, without a slash at its end.
        client: keeps cookies, follows no redirect.
    """

    def __init__(self, house: ServedHouse, *options: str) -> None:
        command = ["serve", "--journal", house.state, "--timezone", "UTC", *options]
        where = [] if "--config" in options else ["--listen", "127.0.0.1:0"]
        ours, theirs = os.pipe()
        self.process = forker().start([*command, *where], house.state, err=theirs)
        os.close(theirs)
        self._log = open(ours)  # noqa: PTH123, SIM115 - a descriptor, read until `stop`
        self.said = ""
        while (address := re.search(r"(https?://\S+):(\d+)/", self.said)) is None:
            line = self._log.readline()  # warnings come first
            self.said += line
            if not line:
                break
        if address is None:
            self.process.kill()
            raise AssertionError(self.said + self._rest())
        self.port = int(address[2])
        self.url = f"{address[1].replace('0.0.0.0', '127.0.0.1')}:{self.port}"
        self.client = self.fresh_client()

    def fresh_client(self, **more: Any) -> httpx.Client:
        headers = {"accept": "text/html"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=LIMIT_S, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> str:
        """End it; what it logged."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it did not end: " + self._rest()) from None
        return self._rest()

    def _rest(self) -> str:
        """What it logged since."""
        if self._log.closed:
            return ""
        with self._log:
            return self._log.read()

    def send(self, path: str, **form: str) -> httpx.Response:
        """A form of a record's page."""
        return self.client.post(path, data=form)
