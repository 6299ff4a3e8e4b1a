"""How well detectors agree with people's boxes: average precision at half overlap on four annotated clips.

    python benchmarks/bench_detector.py [--checkpoint FILE] [--start picodet.onnx] [--teacher FILE ...]

The clips are test footage: nothing is chosen here. Only the families that were annotated are measured (people
on the campus path, vehicles on the roads), inside the area where the tracks are complete.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import av
import numpy as np
import replays
from scoring import DATA, loaded

from models import load_captioner
from models.detections import Detector, overlaps
from models.families import OBJECTS, family_of
from models.grounded.grounded import Grounded
from models.grounded.inference import OnnxDetector
from pipeline.sources import Image
from train.footage.teachers import TeacherFile, teacher_file, teachers
from train.footage.votes import merge_votes
from train.grounded.detector import area_under_curve, fit_canvas
from train.grounded.detector_weights import export_onnx, starting_detector

Found = list[tuple[str, float, tuple[float, float, float, float]]]
"""Family, score and box ``x, y, width, height`` in 0..1."""


def of_network(net: Detector) -> Callable[[Image], Found]:

    def look(image: Image) -> Found:
        (found,) = net.detect([fit_canvas(image)])
        names = [family_of(OBJECTS[best]) for best in found.label.argmax(1).tolist()]
        boxes = [(x, y, w, h) for x, y, w, h in found.box.tolist()]
        return list(zip(names, found.score.tolist(), boxes, strict=True))

    return look


def of_votes(files: list[TeacherFile]) -> Callable[[Image], Found]:
    ensemble = teachers(files)
    return lambda image: [(v.family, v.p, v.box) for v in merge_votes([raw for _, raw in ensemble(image)])]


def precision(
    clip: replays.Clip, looks: Mapping[str, Callable[[Image], Found]], every: int, tracks: ModuleType
) -> dict[str, float]:
    """Average precision of each way of looking at a clip."""
    options = dict(zip(clip.options[::2], clip.options[1::2], strict=True))
    size = tuple(int(v) for v in options["--size"].split("x"))
    area_of = tuple(float(v) for v in options["--area"].split(",")) if "--area" in options else None
    boxes = tracks.read_tracks(DATA / "annotations" / clip.tracks, size)
    truth = tracks.Truth(boxes, float(options["--fps"]), 1.0, area_of)
    family = options.get("--family", "person")
    answers: dict[str, list[tuple[float, bool]]] = {name: [] for name in looks}
    true = 0
    with av.open(str(DATA / "clips" / clip.file)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number % every or number > truth.last:
                continue
            known = [box for box in truth.at(number / truth.fps).values() if truth.within(box)]
            true += len(known)
            image = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
            for name, look in looks.items():
                own = sorted((f for f in look(image) if f[0] == family), key=lambda f: -f[1])
                answers[name] += judged([f for f in own if truth.within(f[2])], known)
    return {name: area_under_curve(own, true) for name, own in answers.items()}


def judged(found: Found, known: list[tuple[float, float, float, float]]) -> list[tuple[float, bool]]:
    """Score of each detection, the surest first, and whether it is the first to meet a person's box."""
    shares = overlaps([f[2] for f in found], known)
    taken: set[int] = set()
    answers = []
    for n, (_, score, _) in enumerate(found):
        there = [m for m in range(len(known)) if m not in taken and shares[n, m] >= 0.5]
        taken |= {max(there, key=lambda m: shares[n, m])} if there else set()
        answers.append((score, bool(there)))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="another one than the packaged")
    parser.add_argument("--start", type=Path, help="PicoDet-S (.onnx) as it was published")
    parser.add_argument("--teacher", action="append", default=[], help="of `narrated-train label`")
    parser.add_argument("--every", type=int, default=10, help="one in so many frames")
    asked = parser.parse_args()
    captioner = load_captioner(asked.checkpoint)
    if not isinstance(captioner, Grounded):
        raise TypeError(f"captioner {captioner.name} has no detector")
    looks = {"narrated": of_network(captioner.detector)}
    if asked.start:
        looks["as published"] = of_network(OnnxDetector(export_onnx(starting_detector(asked.start, 0))))
    if asked.teacher:
        looks["teachers' votes"] = of_votes([teacher_file(text) for text in asked.teacher])
    print("| clip |", " | ".join(looks), "|")
    tracks = loaded("tracks")
    for clip in replays.CLIPS:
        measured = precision(clip, looks, asked.every, tracks)
        print(f"| {clip.file} |", " | ".join(f"{measured[name]:.3f}" for name in looks), "|")


if __name__ == "__main__":
    main()
