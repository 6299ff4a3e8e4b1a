"""Feedback as labels: pictures of records with people's opinions, labelled by teachers and by these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from models.boxes import Box
from models.detections import overlaps
from pipeline.disk import make_folder
from pipeline.evidence import EvidenceStore, evidence_folder
from pipeline.feedback import Feedback, FeedbackStore
from pipeline.journal.segments import find_chains
from pipeline.record import Record
from train.footage.cameras import FootageError
from train.footage.labels import write_labels
from train.footage.teachers import TeacherFile, teachers
from train.footage.votes import FAMILY
from train.samples import image_in, write_image

LABELS = "labels"  # folder of the label files, beside `PICTURES`

PICTURES = "pictures"

_SAME = 0.4  # overlap from which a teacher's detection is of the object of an opinion

Label = tuple[str | None, Box]  # class (None where people say there is none) and box


def export_labels(feedback: Path, by: Sequence[TeacherFile], out: Path) -> Counter[str]:
    """Write ``pictures/CAMERA/*.png`` and label files, see `train.footage.labels.read_labels`.

    A right sentence has its object at its box, a corrected one what the correction says; a wrong one has no
    object there. The teachers label everything else in the pictures. Journals and pictures are those beside
    the feedback. Returns how many opinions were left out, by reason.
    """
    with closing(FeedbackStore(feedback, read_only=True)) as store:
        opinions = {record: remarks.feedback for record, remarks in store.remarks().items()}
    pictures = EvidenceStore(evidence_folder(feedback.parent) or feedback.parent / "evidence")
    networks, left_out = teachers(by), Counter[str]()
    rows: dict[str, list[dict[str, Any]]] = {}
    chains, _ = find_chains([feedback.parent])
    for record in (record for chain in chains for record in chain.records()):
        for side, labels in _by_side(record, opinions.pop(record.id, {}), left_out).items():
            reference = getattr(record.evidence, side) if record.evidence else None
            path = pictures.find(reference) if reference else None
            image = image_in(path) if path else None
            if image is None:
                left_out["its picture is gone"] += len(labels)
                continue
            name = f"{record.after.moment:%Y%m%dT%H%M%S%f}-{record.seq}-{side}.png"
            make_folder(out / PICTURES / record.camera)
            write_image(out / PICTURES / record.camera / name, image)
            results = [[r.detector, view, r.label, r.score, *r.box] for view, r in networks(image)]
            size = {"width": image.shape[1], "height": image.shape[0]}
            row = {"file": name, "frame": 0, "seconds": None, **size, "detections": _merge(results, labels)}
            rows.setdefault(record.camera, []).append(row)
    left_out["its record is in no journal here"] += sum(map(len, opinions.values()))
    if not rows:
        raise FootageError(f"{feedback} has no opinion that can be learnt from: {dict(+left_out)}")
    for camera, lines in rows.items():
        write_labels(out / LABELS / f"{camera}.jsonl.gz", lines)
    return +left_out


def _by_side(
    record: Record, opinions: Mapping[int, Feedback], left_out: Counter[str]
) -> dict[str, list[Label]]:
    results: dict[str, list[Label]] = {}
    for place, each in opinions.items():
        sentence = record.sentences[place]
        name = each.object or sentence.object
        side = "before" if (each.type or sentence.type) == "disappeared" else "after"
        box = getattr(sentence, side) or sentence.box
        if box is None or name not in FAMILY:
            left_out["it names no place, or no object that a detector knows"] += 1
        else:
            results.setdefault(side, []).append((None if each.opinion == "wrong" else name, box))
    return results


def _merge(detections: list[list[Any]], labels: Sequence[Label]) -> list[list[Any]]:
    """The teachers' detections, but for the objects of opinions, and what these say."""
    shares = overlaps([tuple(row[4:]) for row in detections], [box for _, box in labels])
    others = [row for row, share in zip(detections, shares, strict=True) if share.max() < _SAME]
    return others + [["people", "full", name, 1.0, *box] for name, box in labels if name is not None]
