"""The tracker of a camera: as long-lived as the camera; events at the ends and turns of tracks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import hypot, inf, isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.boxes import box_of, offset
from models.captioner import TrackingWeights, packaged_tracking
from models.detections import Detections
from pipeline import settings
from pipeline.tracking.association import Candidates, assign, association_odds, candidates
from pipeline.tracking.ends import End, are_one, decide_end, end_of, is_known, is_weak, stays
from pipeline.tracking.left_objects import LeftObjects
from pipeline.tracking.memory import Memory
from pipeline.tracking.tracks import (
    DEPARTURES,
    ENTRANCES,
    Event,
    Floats,
    Observation,
    Track,
    size_of,
    sizes_apart,
    velocity,
)
from pipeline.tracking.turns import Turns

_DOUBLES = dict.fromkeys(ENTRANCES, "in") | dict.fromkeys(DEPARTURES, "out")  # other kinds double themselves


class Tracker:
    """Follows the objects of one camera; deterministic. `aspect` is width over height of the frame.

    None for `weights` takes those of the packaged checkpoint.
    """

    def __init__(self, aspect: float, weights: TrackingWeights | None = None) -> None:
        self.aspect = aspect
        self._weights = weights or packaged_tracking()
        self.tracks: list[Track] = []
        self.time_s: float | None = None
        self._name = ""
        self._count = 0
        self._watching_since = 0.0
        self._quiet = -inf, -inf
        self._interrupted = self._turned = False
        self._memory = Memory()
        self._recent: list[Event] = []
        self._turns = Turns()
        self._left = LeftObjects(self._new_id)

    def state(self) -> dict[str, Any]:
        return {
            "version": 1, "aspect": self.aspect, "time_s": self.time_s, "turns": self._turns.state(),
            "tracks": [_to_plain(t) for t in self.tracks if _outlasts(t)],
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take up the state of an earlier process, as if the camera had been interrupted since.

        New tracks are named after this process's first frame: the earlier one may have begun, and reported,
        more tracks after it saved. State of another version or frame shape raises `ValueError`.
        """
        if state.get("version") != 1 or not isclose(state["aspect"], self.aspect, rel_tol=0.01):
            raise ValueError("this state is of another version or another camera: start without it")
        self.time_s = state["time_s"]
        self.tracks = [_track(each) for each in state["tracks"]]
        self._turns = Turns.of(state["turns"])
        self.interrupt()

    def interrupt(self, *, turned: bool = False) -> None:
        """Nothing was seen since the last frame, or this process is new: take note before the next `update`.

        What stands at its place again, and looks the same, goes on, after a quarter of an hour as a new
        track; since when is then no longer known. What does not ends without an event, and who is there has
        come nobody knows when. Without this call a long step from frame to frame means that nothing moved
        meanwhile. Where the camera `turned`, the view may move for a moment yet.
        """
        self._interrupted, self._turned = True, turned
        for track in self.tracks:
            track.entrance_decided = track.departed = True
            track.unseen_s = 0.0
            if not _outlasts(track):
                track.state = "ended"

    def update(
        self, time_s: float, detections: Detections, image: NDArray[np.uint8], quiet_s: float = 0.0
    ) -> list[Event]:
        """Take the next frame, and give the events that are decided now, in order of their time.

        The frame, RGB ``(h, w, 3)``, 320 to 640 pixels wide, is later than the last one (else `ValueError`);
        for `quiet_s` before it nothing moved, and no frame was given. Detections have scores from
        `settings.LEAST_SCORE` on, and embeddings as their features.
        """
        if self.time_s is not None and time_s <= self.time_s:
            raise ValueError(f"frames must come in order: {time_s} s after {self.time_s} s")
        if self.time_s is None or self._interrupted:
            self._name = self._name or format(int(time_s), "x")
            self._watching_since = time_s - quiet_s
            self._memory, self._left, self._interrupted = Memory(), LeftObjects(self._new_id), False
            self._take_up(time_s - (self.time_s or time_s))
        if quiet_s:
            self._quiet = time_s - quiet_s, time_s
        step_s = 0.0 if self.time_s is None else min(time_s - self.time_s, settings.LONGEST_STEP_S)
        for track in self.tracks:
            track.unseen_s += step_s
        self._associate(time_s, candidates(detections, image))
        self.time_s = time_s
        self._memory.add(time_s, image)
        if self._memory.turned():
            self.interrupt(turned=True)
        turns = self._turns.update(self.tracks, time_s, self.aspect, self._memory)
        left = self._left.update(self.tracks, time_s, self._memory.frames[-1][1])
        events = [*self._decide(time_s), *self.filter_turns(turns), *left]
        self._age()
        return sorted(events, key=lambda event: event.time_s)

    def finish(self) -> list[Event]:
        """What no later frame will confirm, where it is clear by now: the ways through the frame's edge."""
        events = list[Event]()
        for track in self.tracks:
            coming, time_s = not track.entrance_decided, self.time_s or 0.0
            if coming:
                in_time = track.since_s is not None and track.unseen_s <= settings.ENTRANCE_WAIT_S
                is_due = in_time and len(track.observations) >= self._hits(track)
            else:
                waited = track.unseen_s >= settings.LAST_WAIT_S - settings.JITTER_S
                is_due = waited and not (track.departed or track.looks)
            if is_due and end_of(track, coming=coming, aspect=self.aspect).way:
                track.looks = 1
                events += self._entrance(track) if coming else self._departure(track, time_s)
        return sorted(events, key=lambda event: event.time_s)

    def filter_turns(self, turns: Iterable[Event]) -> Iterator[Event]:
        """Turns of what was clearly seen, and is known; of an object that is followed twice only one."""
        for turn in turns:
            clear = turn.confidence >= settings.LEAST_TURN_CONFIDENCE
            if clear and is_known(turn.object, turn.class_p) and not self._is_double(turn):
                yield turn

    def _take_up(self, away_s: float) -> None:
        """Forget what is not known any more after so long unwatched."""
        for track in self.tracks if away_s > settings.GAP_S else ():
            track.since_s, track.arrived, track.rest, track.announced = None, False, None, ()
            track.observations = track.observations[-1:]
            if away_s > settings.REMEMBERED_S:
                track.state = "ended"

    def _decide(self, time_s: float) -> Iterator[Event]:
        """Entrances and departures that have waited long enough."""
        wait_s, again_s = settings.ENTRANCE_WAIT_S, (settings.DEPARTURE_WAIT_S, settings.DEPARTURE_AGAIN_S)
        for track in [t for t in self.tracks if not t.entrance_decided]:
            # One lost for longer had too few observations when there were more frames: `_hits`.
            if time_s < track.first.time_s + wait_s - settings.JITTER_S or track.unseen_s > wait_s:
                continue
            if len(track.observations) < self._hits(track):
                continue
            track.entrance_decided = True
            self._date_back(track)
            if track.since_s is not None:
                yield from self._entrance(track)
        for track in [t for t in self.tracks if t.entrance_decided and not t.departed]:
            if track.looks < len(again_s) and track.unseen_s >= again_s[track.looks] - settings.JITTER_S:
                track.looks += 1
                yield from self._departure(track, time_s)

    def _date_back(self, track: Track) -> None:
        """Date back objects that stand where they stood before a quiet scene came to life."""
        start, end = self._quiet
        is_prompt = 0 <= track.first.time_s - end <= settings.ENTRANCE_WAIT_S
        if is_prompt and track.most_apart(self.aspect) <= settings.REST_SIZES:
            track.observations.insert(0, replace(track.first, time_s=start))
            track.since_s, track.rests_since_s = None, self._rests_since(track)

    def _hits(self, track: Track) -> int:
        """Observations that make a track confirmed: fewer where there were fewer frames."""
        now = self._memory.frames[-1][0] if self._memory.frames else track.last.time_s
        frames = len(self._memory.between(now - settings.ENTRANCE_WAIT_S, now))
        return max(2, min(settings.CONFIRMING_OBSERVATIONS, frames - 1))

    def _entrance(self, track: Track) -> Iterator[Event]:
        first = track.first.time_s
        end = end_of(track, coming=True, aspect=self.aspect)
        if first - self._watching_since < settings.ENTRANCE_WAIT_S and not end.way:
            track.since_s = None  # it may have been there before, and was not detected
            return
        before = max(first - settings.ENTRANCE_BEFORE_S - end.hidden_s, self._watching_since)
        pair = before, max(min(first + settings.ENTRANCE_WAIT_S, track.last.time_s), first)
        yield from self._end(end, pair)

    def _departure(self, track: Track, time_s: float) -> Iterator[Event]:
        last = track.last.time_s
        pair = max(last - settings.DEPARTURE_BEFORE_S, track.first.time_s), time_s
        end = end_of(track, coming=False, aspect=self.aspect)
        is_first_look = track.looks == 1
        if end.through_edge:  # nothing leaves without moving
            is_due = is_first_look and track.rests_since_s is None
        else:  # it may be found again; what never moved is part of the scene, and hidden or not detected
            is_due = not is_first_look and track.most_apart(self.aspect) >= settings.MOVED_SIZES
        if is_due and not stays(track, self._memory, time_s):
            yield from self._end(end, pair)

    def _end(self, end: End, pair: tuple[float, float]) -> Iterator[Event]:
        """The event of a beginning or an end, where it is sure."""
        event = decide_end(end, self.tracks, self._memory, self._weights, pair)
        if event is None or self._is_double(event):
            return
        if end.coming:
            end.track.arrived = True
            yield event
        else:
            end.track.departed, end.track.state = True, "ended"
            yield self._of_eldest(event, end.track)

    def _of_eldest(self, event: Event, track: Track) -> Event:
        """A departure as that of the track which has followed the same object for longest."""
        if track.arrived:
            return event
        since_s = None
        for other in sorted(self.tracks, key=lambda each: each.first.time_s):
            together = abs(other.last.time_s - track.last.time_s) <= settings.DOUBLE_S and not other.departed
            if together and other.first.time_s < track.first.time_s and are_one(other, track):
                other.departed, other.state = True, "ended"
                since_s = other.since_s if other.arrived else None
                track = other
                break
        else:
            if lost := self._taken_over(track):
                lost.departed, lost.state = True, "ended"
                since_s, track = lost.since_s, lost
        stay_s = None if since_s is None else event.time_s - since_s
        seen_s = event.time_s - max(track.first.time_s, self._watching_since)
        return replace(event, track=track.id, since_s=since_s, duration_s=stay_s, seen_s=seen_s)

    def _taken_over(self, track: Track) -> Track | None:
        """The track that came, and was lost where this one was then: its object has gone on as this one."""
        near = [
            (sizes_apart(each.last.box, there, self.aspect), each.id, each)
            for each in self.tracks
            if each.arrived and not each.departed and each.unseen_s > 0 and each.family == track.family
            if (there := track.at(each.last.time_s))
        ]
        apart, _, lost = min(near, default=(inf, "", None))
        return lost if apart <= settings.SHIFT_SIZES else None

    def _is_double(self, event: Event) -> bool:
        """True where the same object, followed twice, has just had the same event."""
        self._recent = [e for e in self._recent if e.time_s >= event.time_s - settings.KEEP_S]
        tracks = {track.id: track for track in self.tracks}
        kind, own = _DOUBLES.get(event.kind, event.kind), tracks.get(event.track)
        for other in self._recent:
            is_like = _DOUBLES.get(other.kind, other.kind) == kind and other.line == event.line
            two = tracks.get(other.track) if abs(event.time_s - other.time_s) <= settings.DOUBLE_S else None
            if is_like and own and two and are_one(own, two):
                return True
        self._recent.append(event)
        return False

    def _associate(self, time_s: float, found: Candidates) -> None:
        scores = found.scores
        used, high = np.zeros(len(scores), bool), scores >= settings.SURE_SCORE
        left = [track for track in self.tracks if self._continues(track)]
        for stage, penalty in ((high, 0.0), (~high, settings.WEAK_PENALTY_LOG_ODDS)):
            columns = np.flatnonzero(stage)
            if not left or not len(columns):
                continue
            odds = association_odds(left, found, self.aspect, self._weights.association)[:, columns] - penalty
            pairs = assign(odds)
            for row, column in pairs:
                k = int(columns[column])
                used[k] = True
                self._extend(left[row], time_s, found, k, p=1 / (1 + np.exp(-odds[row, column])))
            continued = {row for row, _ in pairs}
            left = [track for row, track in enumerate(left) if row not in continued]
        for k in np.flatnonzero(high & ~used).tolist():
            self._begin(time_s, found, k)

    def _continues(self, track: Track) -> bool:
        if track.state == "ended":
            return False
        patience = settings.RESTING_LOST_S if track.rests_since_s is not None else settings.MOVING_LOST_S
        return track.unseen_s <= patience + settings.JITTER_S

    def _begin(self, time_s: float, found: Candidates, k: int) -> None:
        wait_s = settings.ENTRANCE_WAIT_S - settings.JITTER_S if self._turned else 0.0
        track = Track(
            self._new_id(),
            [Observation(time_s, box_of(found.boxes[k]), float(found.scores[k]))],
            found.classes[k].copy(),
            found.histograms[k],
            found.embeddings[k],
            since_s=time_s if time_s > self._watching_since + wait_s else None,
            ridden=float(found.riding[k]),
        )
        self.tracks.append(track)

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _extend(self, track: Track, time_s: float, found: Candidates, k: int, p: float) -> None:
        observation = Observation(time_s, box_of(found.boxes[k]), float(found.scores[k]), float(p))
        track.observations.append(observation)
        track.classes += found.classes[k]
        new = 0.3  # share in its appearance: the association was fitted to this
        track.histogram = (1 - new) * track.histogram + new * found.histograms[k]
        track.embedding = _unit((1 - new) * track.embedding + new * found.embeddings[k])
        number = min(len(track.observations), 20)
        track.ridden += (float(found.riding[k]) - track.ridden) / number
        track.velocity = velocity(track.observations)
        if len(track.observations) >= self._hits(track):
            track.state = "confirmed"
        track.rests_since_s = self._rests_since(track)
        track.unseen_s, track.departed, track.looks = 0.0, False, 0

    def _rests_since(self, track: Track) -> float | None:
        """Since when it has not left its place, if that is long enough."""
        last, since = track.last, track.last.time_s
        for each in reversed(track.observations):
            across, down = offset(each.box, last.box)
            if hypot(across * self.aspect, down) > settings.REST_SIZES * size_of(last.box, self.aspect):
                break
            since = each.time_s
        return since if last.time_s - since >= settings.REST_S else None

    def _age(self) -> None:
        """States, and what is old is forgotten."""
        kept = []
        for track in self.tracks:
            if track.unseen_s > 0 and track.state == "confirmed":
                track.state = "lost"
            if track.state != "ended" and not self._continues(track):
                track.state = "ended"
            if track.state != "ended" or track.unseen_s < settings.KEEP_S:
                kept.append(track)
            _thin(track)
        self.tracks = kept


def _outlasts(track: Track) -> bool:
    """True of what may go on after an interruption: it is surely there, and rests."""
    is_confirmed = track.state in {"confirmed", "lost"}
    return is_confirmed and track.rests_since_s is not None and not is_weak(track)


def _to_plain(track: Track) -> dict[str, Any]:
    held = {name: getattr(track, name) for name in Track.__slots__}
    held["observations"] = np.array([(o.time_s, *o.box, o.score, o.p) for o in track.observations])
    arrays = {name: value.round(5).tolist() for name, value in held.items() if isinstance(value, np.ndarray)}
    return held | arrays


def _track(held: dict[str, Any]) -> Track:
    arrays = {name: np.array(held[name], np.float64) for name in ("classes", "histogram", "embedding")}
    observations = [Observation(t, (x, y, w, h), *rest) for t, x, y, w, h, *rest in held["observations"]]
    tuples = {name: held[name] and tuple(held[name]) for name in ("velocity", "rest", "announced")}
    known = {name: held[name] for name in Track.__slots__}  # an earlier version knew more
    return Track(**{**known, **arrays, **tuples, "observations": observations})


def _thin(track: Track) -> None:
    """Leave out old observations but for the first and one every `THIN_S`, at most `MOST_OBSERVATIONS`."""
    observations = track.observations
    if len(observations) <= settings.MOST_OBSERVATIONS // 2:
        return
    oldest = track.last.time_s - settings.KEEP_S
    old, new = [o for o in observations if o.time_s < oldest], [o for o in observations if o.time_s >= oldest]
    kept = old[:1]
    for each in old[1:]:
        if each.time_s - kept[-1].time_s >= settings.THIN_S:
            kept.append(each)
    beyond = max(len(kept) + len(new) - settings.MOST_OBSERVATIONS, 0)
    track.observations = [*kept[:1], *kept[1 + beyond :], *new]


def _unit(vector: Floats) -> Floats:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9))
