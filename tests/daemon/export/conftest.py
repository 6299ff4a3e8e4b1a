"""A state folder with real journals of a drawn clip: two cameras, signatures, pictures."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from drawn_footage import clip
from narrations import narration

from daemon import cli
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal, SegmentLimits
from pipeline.journal.signatures import SigningKey, new_key
from pipeline.narration.narration import FrameStamp
from pipeline.record import ChainEnd, Evidence
from pipeline.sources import Frame, SourceOptions, open_source

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
JPEG = bytes.fromhex("ffd8ffe000104a464946000101") + b"no picture, but bytes\xff\xd9"


@dataclass
class House:
    """A state folder, the clip of camera yard, and the public key that signed records 4 and 8 of it."""

    state: Path
    clip: Path
    key: str

    @property
    def journals(self) -> Path:
        return self.state / "journal"

    def export(self, out: Path, *options: str) -> int:
        place = ("--journal", str(self.state), "--timezone", "UTC")
        return cli.main(["export", *place, "--out", str(out), *options])


def stamp(frame: Frame) -> FrameStamp:
    return FrameStamp(
        frame.time, frame.pts, hashlib.sha256(np.ascontiguousarray(frame.image).data).hexdigest()
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> House:
    """Ten records of the yard, one a second, and three of the gate; every third tells of a person."""
    folder = tmp_path_factory.mktemp("house")
    footage = clip(folder / "footage" / "yard.mp4", seconds=12)
    with open_source(str(footage), SourceOptions(sample_hz=1, start=START), "yard") as frames:
        stamps = [stamp(frame) for frame in frames]
    store = EvidenceStore(folder / "state" / "evidence", fsync=False)
    key = SigningKey(new_key())
    small = SegmentLimits(bytes=2500)
    with Journal(folder / "state" / "journal", "yard", fsync=False, limits=small) as journal:
        for n in range(1, 11):
            thing = "person" if n % 3 == 0 else "car"
            said = Sentence(f"A {thing} has appeared.", "appeared", thing, (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)
            told = narration(n, "yard", before=stamps[n - 1], after=stamps[n], sentences=(said,))
            pictures = {
                side: store.put(JPEG + bytes([n, s]), "jpg") for s, side in enumerate(("before", "after"))
            }
            record = journal.append(told, evidence=Evidence(**pictures))
            if n in (4, 8):
                key.sign("yard", ChainEnd.of(record)).append(journal.folder)
    with Journal(folder / "state" / "journal", "gate", fsync=False) as journal:
        for n in range(1, 4):
            journal.append(narration(n, "gate"))
    return House(folder / "state", footage, key.public)
