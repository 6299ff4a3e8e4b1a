"""Feedback as labels: pictures of records with people's opinions, labelled by teachers and by these."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2

from models.boxes import Box, overlaps
from pipeline.disk import make_folder, replace_file
from pipeline.evidence import EvidenceStore, evidence_beside
from pipeline.feedback import Feedback, FeedbackStore, Opinion
from pipeline.journal import read_journal
from pipeline.journal.segments import find_chains
from pipeline.record_members import Record, RecordSentence
from train.footage.cameras import FootageError
from train.footage.teachers import TeacherFile, teachers
from train.footage.votes import FAMILY
from train.samples import image_in

LABELS = "labels"
"""Folder of the label files, beside `PICTURES`."""

PICTURES = "pictures"

_SAME = 0.4  # overlap from which a teacher's answer is about the object of an opinion


@dataclass(frozen=True, slots=True)
class FeedbackFiles:
    """Where feedback, journals and pictures are; None is beside the feedback, or beside the journals."""

    feedback: Path
    journals: Path | None = None
    evidence: Path | None = None


def export_labels(files: FeedbackFiles, by: Sequence[TeacherFile], out: Path) -> Counter[str]:
    """Write ``pictures/CAMERA/*.png`` and label files, see `train.footage.frames.write_camera`.

    A right sentence has its object at its box, a corrected one what the correction says; a wrong one has no
    object there. The teachers label everything else in the pictures.

    Returns:
        Opinions that were left out, by reason.

    Raises:
        FeedbackError, JournalError, TeacherError: see their modules.
        FootageError: no opinion can be used.
    """
    with FeedbackStore(files.feedback, read_only=True) as store:
        opinions: dict[str, list[Feedback]] = {}
        for each in store.newest():
            opinions.setdefault(each.record, []).append(each)
    journals = files.journals or files.feedback.parent
    pictures = EvidenceStore(files.evidence or evidence_beside(journals) or journals / "evidence")
    networks, left_out = teachers(by), Counter[str]()
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in _records(journals):
        for side, labels in _by_side(record, opinions.pop(record.id, []), left_out).items():
            reference = getattr(record.evidence, side) if record.evidence else None
            path = pictures.find(reference) if reference else None
            image = image_in(path) if path else None
            if image is None:
                left_out["its picture is gone"] += len(labels)
                continue
            name = f"{record.after.moment:%Y%m%dT%H%M%S%f}-{record.seq}-{side}.png"
            make_folder(out / PICTURES / record.camera)
            cv2.imwrite(str(out / PICTURES / record.camera / name), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
            seen = [[r.detector, view, r.label, r.score, *r.box] for view, r in networks(image)]
            rows.setdefault(record.camera, []).append(
                {
                    "file": name,
                    "frame": 0,
                    "seconds": None,
                    "width": image.shape[1],
                    "height": image.shape[0],
                    "detections": _merge(seen, labels),
                }
            )
    left_out["its record is in no journal here"] += sum(map(len, opinions.values()))
    if not rows:
        raise FootageError(f"{files.feedback} has no opinion that can be learnt from: {dict(+left_out)}")
    make_folder(out / LABELS)
    for camera, lines in rows.items():
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        replace_file(out / LABELS / f"{camera}.jsonl.gz", gzip.compress(content, mtime=0), durable=True)
    return +left_out


def _records(journals: Path) -> Iterator[Record]:
    chains, _ = find_chains([journals])
    for chain in chains:
        for path in chain.files:
            yield from read_journal(path)


def _by_side(
    record: Record, opinions: Sequence[Feedback], left_out: Counter[str]
) -> dict[str, list[tuple[str | None, Box]]]:
    """``(object, box)`` on each of the two pictures; the object is None where there is none."""
    found: dict[str, list[tuple[str | None, Box]]] = {}
    for each in opinions:
        sentence = record.sentences[each.sentence] if each.sentence < len(record.sentences) else None
        label = sentence and _label(sentence, each)
        if label:
            found.setdefault(label[0], []).append(label[1:])
        else:
            left_out["it names no place, or no object that a detector knows"] += 1
    return found


def _label(sentence: RecordSentence, said: Feedback) -> tuple[str, str | None, Box] | None:
    correction = said.correction
    name = (correction and correction.object) or sentence.object
    kind = (correction and correction.type) or sentence.type
    side = "before" if kind == "disappeared" else "after"
    own = sentence.before if side == "before" else sentence.after
    box = (correction and correction.box) or own or sentence.box
    if box is None or name not in FAMILY:
        return None
    return side, None if said.opinion is Opinion.WRONG else name, box


def _merge(seen: list[list[Any]], labels: Sequence[tuple[str | None, Box]]) -> list[list[Any]]:
    """What teachers saw, but for what opinions are about, and what these say."""
    boxes = [box for _, box in labels]
    shares = overlaps([tuple(row[4:]) for row in seen], boxes)
    kept = [row for row, share in zip(seen, shares, strict=True) if share.max() < _SAME]
    return kept + [["people", "full", name, 1.0, *box] for name, box in labels if name is not None]
