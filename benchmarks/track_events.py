"""How true the tracker's events are, and how many it tells: its confidence is fitted here.

    python benchmarks/track_events.py [--cache DIR] [--threshold P]
        [--test] [--people] [--turns] [--write] [--show]

The shipped detector looks at five frames a second of the validation clips (`validation_tracks.jsonl`), one
`pipeline.tracking.Tracker` a clip follows, and ../shared/bench/tracks.py judges every entrance and departure.
These are ten clips of nine training cameras (four of them held out of the training), with the tracks of
everybody in them: what two of six detectors see, twice a second, was joined by optical flow, drawn on the
sampled frames, looked at, and mended by eye (numbers that were exchanged, posts and shadows, who came before
a detector saw him). Each line has the seconds and the area in which the tracks are complete, and the tracks,
`[seconds, x, y, width, height]` in shares; of a marginal one nothing is judged. One looker. It is no test:
constants come from it.

The confidence is fitted with each camera left out in turn; the table is of these. `--write` fits it on all of
them and puts it into the packaged checkpoint, where nothing else changes. `--test` and `--people` judge the
shipped confidence on the clips with published tracks, from which nothing is chosen. Detections are kept in
the cache.

`--turns` counts what has stopped, set off, was put down or taken, or got in or out, of 63 such events of
eleven training clips that were timed by hand (`validation_turns.jsonl`: kind, family, second, a point x, y of
it), forwards, and backwards in time, where a stop is a start. What is told besides is listed, to be judged.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import replays
import scoring
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray
from replays import START
from scoring import DATA, Verdict
from sklearn.linear_model import LogisticRegression

from models import DEFAULT, SHIPPED, load_captioner
from models.captioner import TrackingWeights, packaged_tracking
from models.detections import Detections
from models.families import THINGS
from models.grounded.grounded import Grounded
from pipeline import settings
from pipeline.tracking import Event, Tracker
from pipeline.tracking.ends import EVIDENCE, End, end_confidence, end_event, end_evidence, is_known
from pipeline.tracking.tracks import DEPARTURES, ENTRANCES

TRUTH = Path(__file__).with_name("validation_tracks.jsonl")
FPS = 10.0
SLACK_S, LATE_S = 1.0, 6.0
FAMILIES = {"person": "person", "cyclist": "person", "motorcyclist": "person", "rider": "person"} | {
    "bicycle": "person",
    "motorcycle": "person", "car": "car", "van": "car", "bus": "car", "truck": "car", "vehicle": "car",
}  # fmt: skip
RATE_HZ = 5.0
TURNS = Path(__file__).with_name("validation_turns.jsonl")
NEAR_S = 2.5
BACKWARDS = {"stopped": "resumed", "placed": "removed", "got_in": "got_out"}
BACKWARDS |= {later: earlier for earlier, later in BACKWARDS.items()}
RIDGE = 0.03
"""Inverse strength of the ridge."""
READER_BIAS = 1.4
"""Log odds by which a strict reader finds sentences less often right than tracks do: on training cameras
30 of 33 where .975 was stated on average (docs/narrations.md)."""
READER_SLOPE = 0.6
"""Factor of the log odds that are left: high ones promise more than a reader finds (docs/narrations.md)."""

COLUMNS = {"boxes": "box", "scores": "score", "classes": "label", "embeddings": "feature"}


@dataclass
class Score:
    """Of one clip: its judged sentences, its events as (kind, object, seconds, told), lines to show."""

    judged: list[Verdict] = field(default_factory=list)
    unknown: int = 0
    events: list[tuple[str, str, float, bool]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Footage:
    """Frames of a clip: seconds, detections, and small pictures ``(n, h, w, 3)``."""

    times: NDArray[np.float64]
    detections: list[Detections]
    images: NDArray[np.uint8]

    def events(self, tracker: Tracker) -> list[Event]:
        """What a tracker says of it."""
        each = zip(self.times, self.detections, self.images, strict=True)
        events = [event for t, found, image in each for event in tracker.update(float(t), found, image)]
        return [*events, *tracker.finish()]

    @property
    def aspect(self) -> float:
        """Width over height."""
        return self.images.shape[2] / self.images.shape[1]


@dataclass(frozen=True, eq=False)
class Candidate:
    """An event before anything is held back."""

    event: Event
    evidence: NDArray[np.float64]
    verdict: str
    ids: tuple[str, ...]
    camera: str = ""


class Recorder(Tracker):
    """Keeps the evidence of every candidate."""

    def __init__(self, aspect: float) -> None:
        super().__init__(aspect)
        self.seen: list[tuple[Event, NDArray[np.float64]]] = []

    def _end(self, end: End, pair: tuple[float, float]) -> Iterator[Event]:
        """Its event; the evidence is kept also where the tracker does not ask for it."""
        name, share = end.track.vote()
        if is_known(name, share) and name not in THINGS:
            evidence = end_evidence(end, self.tracks, self._memory, pair)
            p = end_confidence(evidence, self._weights, coming=end.coming)
            self.seen.append((end_event(end, pair, p), evidence))
        yield from super()._end(end, pair)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cache", type=Path, help="folder for detections; else nothing is kept")
    parser.add_argument("--threshold", type=float, default=settings.LEAST_CONFIDENCE)
    parser.add_argument("--test", action="store_true", help="judge the five clips with published tracks")
    parser.add_argument("--people", action="store_true", help="judge the four clips of people")
    parser.add_argument("--turns", action="store_true", help="count the turns that were timed by hand")
    parser.add_argument("--write", action="store_true", help="write the confidence, fitted on all cameras")
    parser.add_argument("--show", action="store_true", help="every sentence and what is not told")
    chosen = parser.parse_args()
    settings.LEAST_CONFIDENCE = chosen.threshold
    with tempfile.TemporaryDirectory() as scratch:
        cache = chosen.cache or Path(scratch)
        cache.mkdir(parents=True, exist_ok=True)
        if chosen.turns:
            for backwards in (False, True):
                judge_turns(cache, backwards=backwards)
        elif chosen.test or chosen.people:
            judge_published(replays.PEOPLE if chosen.people else replays.CLIPS, cache, show=chosen.show)
        else:
            judge_validation(cache, show=chosen.show, write=chosen.write)


def judge_published(clips: Sequence[replays.Clip], cache: Path, *, show: bool) -> None:
    truths = {}
    for clip in clips:
        footage = detected(DATA / "clips" / clip.file, cache)
        events = footage.events(Tracker(footage.aspect))
        records = cache / f"{Path(clip.file).stem}.jsonl"
        records.write_text("".join(json.dumps(record(event)) + "\n" for event in events), encoding="utf-8")
        truths[clip.file] = replays.judged(records, clip)
        if show:
            print(*(f"{clip.file} {line(event)}" for event in events), sep="\n")
    truths["all"] = replays.summed(list(truths.values()))
    print(
        "| clip | true | false | not judged | entrances told | departures told |", f"|{'---|' * 6}", sep="\n"
    )
    for name, truth in truths.items():
        of, told = truth.counts, " | ".join(truth.events())
        print(f"| {name} | {of['true']} | {of['false']} | {of['unknown'] + of['other']} | {told} |")
    total = truths["all"]
    of = total.counts
    told, events = of["entrances told"] + of["departures told"], of["entrances"] + of["departures"]
    precision = of["true"] / max(of["true"] + of["false"], 1)
    print(f"true {precision:.3f}, told {told} of {events} = {told / events:.3f}")
    print(dict(total.reasons), scoring.calibration(total.judged))


def judge_validation(cache: Path, *, show: bool, write: bool) -> None:
    """Confidence fitted with each camera left out, and on all of them."""
    lines = TRUTH.read_text(encoding="utf-8").splitlines()
    clips = {clip_name(clip): clip for clip in map(json.loads, lines)}
    footage = {
        name: detected(scoring.training_clip(clip["camera"], clip["clip"]), cache)
        for name, clip in clips.items()
    }
    found = {name: candidates(clip, footage[name]) for name, clip in clips.items()}
    scores, doubles = {}, 0
    for name, clip in clips.items():
        rest = [c for other, each in found.items() if clips[other]["camera"] != clip["camera"] for c in each]
        tracker = Tracker(footage[name].aspect, fitted(rest))
        records = [record(event) for event in footage[name].events(tracker)]
        scores[name] = score(clip, records)
        doubles += doubled(clip, records)
    print(table(scores))
    print(f"said twice: {doubles}")
    if show:
        print(*(f"{name}: {row}" for name, each in scores.items() for row in each.shown), sep="\n")
    if write:
        write_weights(fitted([c for each in found.values() for c in each]))


def write_weights(weights: TrackingWeights) -> None:
    """Put weights, and how they were fitted, into the packaged checkpoint, where nothing else changes."""
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)  # noqa: S101
    captioner.weights.tracking = weights
    fit = {
        "command": "python benchmarks/track_events.py --write",
        "data": "benchmarks/validation_tracks.jsonl",
        "date": datetime.now(UTC).date().isoformat(),
        "evidence": EVIDENCE,
    }
    captioner.record = {**captioner.record, "tracking": {**captioner.record["tracking"], **fit}}
    captioner.save(SHIPPED[DEFAULT])


def judge_turns(cache: Path, *, backwards: bool) -> None:
    """Count the turns of `TURNS` that are told, within `NEAR_S` and at their place."""
    told = many = 0
    for clip in map(json.loads, TURNS.read_text(encoding="utf-8").splitlines()):
        footage, wanted = detected(scoring.training_clip(clip["camera"], clip["clip"]), cache), clip["turns"]
        if backwards:
            end_s, frames = footage.times[-1], (footage.detections, footage.images)
            footage = Footage((end_s - footage.times)[::-1], *(each[::-1] for each in frames))
            wanted = [[BACKWARDS[kind], family, end_s - t, x, y] for kind, family, t, x, y in wanted]
        found = [e for e in footage.events(Tracker(footage.aspect)) if e.kind in BACKWARDS]
        for kind, family, time_s, x, y in wanted:
            shown = [e for e in found if e.kind == kind and _shows(e, x, y, time_s)]
            hit = min(shown, key=lambda e, t=time_s: abs(e.time_s - t), default=None)
            told, many = told + (hit is not None), many + 1
            if hit is None:
                print(f"{clip['camera']}: not told: {time_s:.1f} {family} {kind}")
            else:
                found.remove(hit)
        print(*(f"{clip['camera']}: besides: {line(each)}" for each in found), sep="\n")
    print(f"{'backwards' if backwards else 'forwards'}: {told} of {many} told")


def _shows(event: Event, x: float, y: float, time_s: float) -> bool:
    boxes = [box for box in (event.box_before, event.box_after) if box]
    return abs(event.time_s - time_s) <= NEAR_S and any(
        -0.05 <= x - left <= wide + 0.05 and -0.07 <= y - top <= high + 0.07
        for left, top, wide, high in boxes
    )


def candidates(clip: dict[str, Any], footage: Footage) -> list[Candidate]:
    tracker = Recorder(footage.aspect)
    footage.events(tracker)
    found = []
    for event, evidence in tracker.seen:
        verdict, ids = judged(clip, record(event))
        found.append(Candidate(event, evidence, verdict, ids, clip["camera"]))
    return found


def judged(clip: dict[str, Any], said: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Verdict on a record of one sentence, and the tracks of which it is true."""
    scorer, (sentence,) = scoring.loaded("tracks"), said["sentences"]
    if (family := FAMILIES.get(sentence["object"])) is None:
        return "other", ()
    verdict, _, ids = judge(scorer, clip, truth(scorer, clip, family), sentence, seconds_of(said))
    return verdict, tuple(ids)


def doubled(clip: dict[str, Any], records: Sequence[dict[str, Any]]) -> int:
    """True sentences about an event that was told before."""
    told = Counter((said["sentences"][0]["type"], each) for said in records for each in judged(clip, said)[1])
    return sum(count - 1 for count in told.values())


def fitted(found: Sequence[Candidate]) -> TrackingWeights:
    """Confidence by logistic regression, stretched to what further cameras, and a reader, find."""
    weights = []
    for coming in (True, False):
        rows = [c for c in found if (c.event.box_before is None) == coming]
        slopes = _regression(rows)
        odds, true = [], []
        for camera in {c.camera for c in rows}:
            own = _regression([c for c in rows if c.camera != camera])
            judged_rows = [c for c in rows if c.camera == camera and c.verdict in ("true", "false")]
            odds += [float(c.evidence @ own) for c in judged_rows]
            true += [c.verdict == "true" for c in judged_rows]
        stretch = LogisticRegression(C=1.0).fit(np.array(odds)[:, None], true)
        slopes *= stretch.coef_[0, 0]
        slopes[0] += stretch.intercept_[0] - READER_BIAS
        weights.append(np.round(READER_SLOPE * slopes, 5))
    return replace(packaged_tracking(), entrance=weights[0], departure=weights[1])


def _regression(rows: Sequence[Candidate]) -> NDArray[np.float64]:
    """Weights of the evidence with a ridge; of several true ones about one event the best box counts."""
    best: dict[tuple[str, ...], Candidate] = {}
    for each in rows:
        key = each.camera, *each.ids
        if each.verdict == "true" and (key not in best or _worth(each) > _worth(best[key])):
            best[key] = each
    rows = [c for c in rows if c.verdict == "false" or best.get((c.camera, *c.ids)) is c]
    matrix = np.array([c.evidence for c in rows])
    mean, scale = matrix.mean(0), matrix.std(0) + 1e-6
    mean[0], scale[0] = 0.0, 1.0  # the bias
    model = LogisticRegression(C=RIDGE, max_iter=2000, fit_intercept=False)
    slopes = model.fit((matrix - mean) / scale, [c.verdict == "true" for c in rows]).coef_[0] / scale
    slopes[0] -= slopes @ mean
    return slopes


def _worth(candidate: Candidate) -> float:
    box = candidate.event.box_after or candidate.event.box_before
    if box is None:
        return 0.0
    return box[2] * box[3] * float(candidate.evidence[EVIDENCE.index("best score")]) ** 2


def detected(path: Path, cache: Path) -> Footage:
    file = cache / f"{path.parent.name}-{path.stem}.npz"
    if not file.exists():
        _detect(path, file)
    with np.load(file) as held:
        parts = {name: held[name] for name in held.files}
    splits = np.cumsum(parts["counts"])[:-1]
    columns = (np.split(parts[name], splits) for name in COLUMNS)
    found = [Detections(*row) for row in zip(*columns, strict=True)]
    return Footage(parts["times"], found, parts["images"])


def _detect(path: Path, file: Path) -> None:
    from models import load_captioner  # noqa: PLC0415 - ONNX Runtime is needed here alone
    from pipeline.narration.batch import RegionDetector, detect  # noqa: PLC0415
    from pipeline.settings import SMALL_WIDTH  # noqa: PLC0415
    from pipeline.sources.frame import small_rgb_of  # noqa: PLC0415

    captioner, scaler, camera = load_captioner(), VideoReformatter(), RegionDetector()
    times, found, images, tick = [], [], [], 0.0
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        start = None
        for frame in container.decode(stream):
            start = frame.time if start is None else start
            if (seconds := frame.time - start) < tick - 1e-3:
                continue
            tick += 1 / RATE_HZ
            images.append(small_rgb_of(frame, SMALL_WIDTH, scaler))
            times.append(seconds)
            found += detect([images[-1]], captioner, [camera])
    np.savez(
        file,
        times=times,
        images=images,
        counts=[len(each) for each in found],
        **{
            name: np.concatenate([getattr(each, part) for each in found]).astype(np.float32)
            for name, part in COLUMNS.items()
        },
    )


def record(event: Event) -> dict[str, Any]:
    """An event as the judges read it."""
    kind = (
        "appeared" if event.kind in ENTRANCES else "disappeared" if event.kind in DEPARTURES else event.kind
    )
    sentence = {
        "type": kind, "object": event.object, "count": 1, "confidence": event.confidence, "text": kind,
        "box_before": event.box_before, "box_after": event.box_after,
    }  # fmt: skip
    times = event.before_time_s, event.after_time_s
    before, after = ({"time": (START + timedelta(seconds=t)).isoformat()} for t in times)
    return {"before": before, "after": after, "sentences": [sentence]}


def line(event: Event) -> str:
    return (
        f"{event.time_s:6.1f} {event.confidence:.2f} {event.track} {event.object} {event.kind} {event.edge}"
    )


def clip_name(clip: dict[str, Any]) -> str:
    """Its camera, and the clip of it where there are several."""
    return f"{clip['camera']} {Path(clip['clip']).stem}" if clip["camera"] == "tfl_625" else clip["camera"]


def score(clip: dict[str, Any], records: Sequence[dict[str, Any]]) -> Score:
    """What is true of the records of a clip, and which entrances and departures they tell."""
    scorer, found = scoring.loaded("tracks"), Score()
    told: list[tuple[str, str, float, float]] = []
    truths = {kind: truth(scorer, clip, kind) for kind in ("person", "car")}
    for record in records:
        before, after = seconds_of(record)
        for sentence in record["sentences"]:
            verdict, reason, ids = "other", "", []
            if family := FAMILIES.get(sentence["object"]):
                verdict, reason, ids = judge(scorer, clip, truths[family], sentence, (before, after))
            told += [(sentence["type"], each, before, after) for each in ids]
            found.unknown += verdict in ("unknown", "other")
            if verdict in ("true", "false"):
                found.judged.append((sentence["confidence"], verdict == "true"))
            found.shown.append(
                f"{before:6.1f} {after:6.1f}  {verdict:8} {sentence['confidence']:.2f}  {sentence['text']}  "
                f"{reason}"
            )
    for track in clip["tracks"]:
        found.events += events(clip, track, truths, told)
    found.shown += [f"untold {kind} {what} at {when:.1f}" for kind, what, when, ok in found.events if not ok]
    return found


def seconds_of(said: dict[str, Any]) -> tuple[float, float]:
    """The times of a record's two frames, from the begin of its clip."""
    before, after = (datetime.fromisoformat(said[side]["time"]) - START for side in ("before", "after"))
    return before.total_seconds(), after.total_seconds()


def judge(
    scorer: ModuleType, clip: dict[str, Any], true: Any, sentence: dict[str, Any], times: tuple[float, float]
) -> tuple[str, str, list[str]]:
    """Verdict on a sentence, its reason, and the tracks of which it is true."""
    verdict, reason, ids = scorer.judge(true, sentence, *times)
    least, most = clip["window"]
    outside = not (least <= times[0] and times[1] <= most)
    if verdict != "true" and (outside or marginal(scorer, clip, sentence, *times)):
        verdict = "unknown"
    return verdict, reason, ids


def truth(scorer: ModuleType, clip: dict[str, Any], family: str) -> Any:
    """The tracks of a family as tracks.py has them, ten frames a second."""
    tracks = {
        track["id"]: dense(track["sights"]) for track in clip["tracks"] if FAMILIES[track["object"]] == family
    }
    nobody = {"nobody": {0: (2.0, 2.0, 0.01, 0.01)}}
    found = scorer.Truth(tracks or nobody, FPS, SLACK_S, tuple(clip["area"]))
    found.last = round(clip["window"][1] * FPS)
    return found


def dense(sights: Sequence[Sequence[float]]) -> dict[int, tuple[float, ...]]:
    found = {}
    for (t0, *a), (t1, *b) in zip(sights, sights[1:] or sights, strict=False):
        for frame in range(round(t0 * FPS), round(t1 * FPS) + 1):
            share = min(max((frame / FPS - t0) / (t1 - t0), 0.0), 1.0) if t1 > t0 else 0.0
            found[frame] = tuple(u + share * (v - u) for u, v in zip(a, b, strict=True))
    return found


def marginal(
    scorer: ModuleType, clip: dict[str, Any], sentence: dict[str, Any], before: float, after: float
) -> bool:
    """Whether a sentence is about a track of which nothing is judged."""
    for track in clip["tracks"]:
        frames = dense(track["sights"]) if track.get("marginal") else {}
        for box, seconds in ((sentence.get("box_before"), before), (sentence.get("box_after"), after)):
            there = frames.get(round(seconds * FPS))
            if box and there and scorer.overlap(there, box) > 0.2:
                return True
    return False


def events(
    clip: dict[str, Any],
    track: dict[str, Any],
    truths: dict[str, Any],
    told: Sequence[tuple[str, str, float, float]],
) -> list[tuple[str, str, float, bool]]:
    """Its entrance and its departure, where they are seen, and whether they are told."""
    (first, *came), (last, *went) = track["sights"][0], track["sights"][-1]
    least, most = clip["window"]
    if track.get("marginal") or last - first < 1:
        return []
    ends = (("entrance", "appeared", first, came), ("departure", "disappeared", last, went))
    real = {"entrance": least + SLACK_S < first <= most, "departure": least < last < most - SLACK_S}
    return [
        (what, track["object"], when, any(
            kind == k and track["id"] == i and b - 0.5 <= when <= e + LATE_S for k, i, b, e in told
        ))
        for what, kind, when, box in ends
        if real[what] and truths[FAMILIES[track["object"]]].within(box)
    ]  # fmt: skip


def table(scores: dict[str, Score]) -> str:
    """A row a clip, and their sum with intervals that draw clips."""
    lines = ["| clip | true | false | not judged | entrances told | departures told |", f"|{'---|' * 6}"]
    for name, each in [*scores.items(), ("**all**", _sum(list(scores.values())))]:
        right = sum(ok for _, ok in each.judged)
        parts = [[ok for what, *_, ok in each.events if what == kind] for kind in ("entrance", "departure")]
        told = " | ".join(f"{sum(p)} of {len(p)}" for p in parts)
        lines.append(f"| {name} | {right} | {len(each.judged) - right} | {each.unknown} | {told} |")
    draw, every = np.random.default_rng(0), list(scores.values())
    drawn = [_sum([every[k] for k in draw.integers(len(every), size=len(every))]) for _ in range(1000)]
    worth = scoring.calibration(_sum(every).judged)
    for what, of in (("true", _true), ("told", _told)):
        shares = sorted(of(each) for each in drawn)
        lines.append(f"{what} {of(_sum(every)):.3f} [{shares[25]:.2f}, {shares[974]:.2f}]")
    lines.append(f"{worth}")
    return "\n".join(lines)


def _true(each: Score) -> float:
    return sum(ok for _, ok in each.judged) / max(len(each.judged), 1)


def _told(each: Score) -> float:
    return sum(ok for *_, ok in each.events) / max(len(each.events), 1)


def _sum(each: Sequence[Score]) -> Score:
    return Score(
        [verdict for one in each for verdict in one.judged],
        sum(one.unknown for one in each),
        [event for one in each for event in one.events],
    )


if __name__ == "__main__":
    main()
