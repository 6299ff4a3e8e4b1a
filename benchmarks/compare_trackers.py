"""Our association against the trackers of Roboflow's `trackers`, on the same detections.

    pip install trackers
    python benchmarks/compare_trackers.py --cache DIR

Every tracker gets what the shipped detector sees of the validation clips five times a second, after our
suppression of doubles. Every track of four observations or more begins with an entrance and ends with a
departure, nothing is held back: so the table shows how well tracks fit to objects, and no confidence. Broken:
further tracks of one object; merged: further objects in one track, of three observations or more each.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import track_events
import validation_tracks
from scipy.optimize import linear_sum_assignment
from track_events import Footage

from models.boxes import overlaps
from models.families import OBJECTS
from pipeline.tracking import Tracker
from pipeline.tracking.suppression import suppress

Box = tuple[float, ...]
Tracks = dict[int, list[tuple[float, Box, str]]]
WAITS = {"before": 1.5, "after": 1.0, "left before": 1.0, "left after": 1.5}


def ours(footage: Footage) -> Tracks:
    """Tracks of our tracker, without the joints that confidence allows."""
    tracker, found = Tracker(footage.aspect), {}
    for time_s, detections, image in zip(footage.times, footage.detections, footage.images, strict=True):
        tracker.update(float(time_s), detections, image)
        found |= {track.id: track for track in tracker.tracks}
    return {
        k: [(o.time_s, o.box, track.object) for o in track.observations]
        for k, track in enumerate(found.values())
    }


def theirs(name: str, **options: Any) -> Callable[[Footage], Tracks]:
    """Tracks of one of the package's trackers."""

    def follow(footage: Footage) -> Tracks:
        import supervision  # noqa: PLC0415 - needed here alone
        import trackers  # noqa: PLC0415

        height, width = footage.images.shape[1:3]
        scale = np.array([width, height, width, height])
        tracker = getattr(trackers, name)(frame_rate=track_events.RATE_HZ, **options)
        found: Tracks = defaultdict(list)
        for time_s, detections, image in zip(footage.times, footage.detections, footage.images, strict=True):
            seen, _ = suppress(detections)
            corners = np.concatenate([seen.boxes[:, :2], seen.boxes[:, :2] + seen.boxes[:, 2:]], 1) * scale
            given = supervision.Detections(
                corners.astype(np.float32), None, seen.scores, seen.classes.argmax(1)
            )
            out = tracker.update(given, image)
            for corner, number, kind in zip(out.xyxy, out.tracker_id, out.class_id, strict=True):
                if number is not None and number >= 0:
                    low, high = corner[:2] / scale[:2], corner[2:] / scale[2:]
                    found[int(number)].append((float(time_s), (*low, *(high - low)), OBJECTS[int(kind)]))
        return found

    return follow


def measure(clip: dict[str, Any], tracks: Tracks) -> Counter[str]:
    """True and false candidates, events told, broken and merged tracks."""
    counts: Counter[str] = Counter()
    told = []
    least, most = clip["window"]
    for track in tracks.values():
        if len(track) < 4:
            continue
        name = Counter(kind for *_, kind in track).most_common(1)[0][0]
        (first, _, _), (last, end, _) = track[0], track[-1]
        later = min(track, key=lambda each: abs(each[0] - first - WAITS["after"]))
        before = min(track, key=lambda each: abs(each[0] - last + WAITS["left before"]))
        ends = []
        if first > least + 1:
            ends.append(("appeared", max(first - WAITS["before"], 0.0), later[0], None, later[1]))
        if last < most - WAITS["left after"]:
            ends.append(("disappeared", before[0], last + WAITS["left after"], before[1], None))
        for kind, start_s, end_s, old, new in ends:
            said = track_events.said(kind, name, (start_s, end_s), (old, new))
            verdict, ids = track_events.judged(clip, said)
            counts[verdict] += 1
            told += [(kind, each, start_s, end_s) for each in ids]
        del end
    scorer = track_events.scoring.loaded("tracks")
    truths = {kind: validation_tracks.truth(scorer, clip, kind) for kind in ("person", "car")}
    for track in clip["tracks"]:
        events = validation_tracks.events(clip, track, truths, told)
        counts.update(events=len(events), told=sum(ok for *_, ok in events))
    counts.update(_broken(clip, tracks))
    return counts


def _broken(clip: dict[str, Any], tracks: Tracks) -> Counter[str]:
    objects = {each["id"]: validation_tracks.dense(each["sights"]) for each in clip["tracks"]}
    by_frame: dict[int, list[tuple[int, Box]]] = defaultdict(list)
    for number, track in tracks.items():
        for time_s, box, _ in track:
            by_frame[round(time_s * validation_tracks.FPS)].append((number, box))
    pairs: Counter[tuple[str, int]] = Counter()
    for frame, there in by_frame.items():
        ids = [each for each, boxes in objects.items() if frame in boxes]
        if not ids:
            continue
        share = overlaps([objects[i][frame] for i in ids], [box for _, box in there])
        for row, column in zip(*linear_sum_assignment(-share), strict=True):
            pairs[ids[row], there[column][0]] += share[row, column] > 0.35
    firm = [pair for pair, count in pairs.items() if count >= 3]
    broken, merged = (sum(n - 1 for n in Counter(pair[k] for pair in firm).values()) for k in (0, 1))
    return Counter(broken=broken, merged=merged)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder for detections")
    chosen = parser.parse_args()
    sure = {"high_conf_det_threshold": 0.3}
    rows = {
        "ours": ours,
        "ByteTrack": theirs(
            "ByteTrackTracker", track_activation_threshold=0.3, minimum_consecutive_frames=1, **sure
        ),
        "OC-SORT": theirs("OCSORTTracker", minimum_consecutive_frames=1, minimum_iou_threshold=0.1, **sure),
        "BoT-SORT": theirs("BoTSORTTracker", **sure),
    }
    lines = validation_tracks.TRUTH.read_text(encoding="utf-8").splitlines()
    print("| tracker | true | false | told | broken | merged |", f"|{'---|' * 6}", sep="\n")
    for name, follow in rows.items():
        total: Counter[str] = Counter()
        for clip in map(json.loads, lines):
            footage = track_events.detected(validation_tracks.path(clip), chosen.cache)
            total.update(measure(clip, follow(footage)))
        told = f"{total['told']} of {total['events']}"
        cells = name, total["true"], total["false"], told, total["broken"], total["merged"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
