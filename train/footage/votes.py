"""The teacher: what several detectors see in one frame, merged by agreement and cleaned by time.

One detector's high score is worth less than two detectors' agreement. Boxes of one family that overlap are
one candidate; its probability is that not all of the detectors that see it are wrong,

    p = 1 - prod over detectors m of (1 - r s_m),

with s_m the highest score that m gives it and r = `TRUST`. What is likely is there; what is unlikely,
nothing; between them nothing is learnt. Along a clip, what is seen in one frame alone is not believed, and
what stands still through many frames is there in those in which it was missed, unless the pixels changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.boxes import Box, area, box_of
from models.detections import overlaps
from models.families import family_of, object_of

_ANSWERS = (
    *("person", "vehicle", "car", "bus", "truck", "van", "bike", "bicycle", "motorcycle"),
    *("cat", "dog", "backpack", "handbag", "suitcase", "bottle"),
)
FAMILY = {name: "two-wheeler" if name == "bike" else family_of(object_of(name)) for name in _ANSWERS}
"""The family of each class that a detector of the ensemble may answer; "bike" is either kind."""

LIKELY, UNLIKELY = 0.62, 0.25  # probability from which it is an object, and below which nothing
SAME = 0.5  # boxes of one family that share this much (intersection over union) show one object
TRUST = 0.8  # the most that one detector alone is believed
_LARGE, _AGREED = 0.2, 3  # of the frame: what is so large needs so many detectors
_STILL = 0.6  # intersection over union of what stands still from frame to frame
_OFTEN = 0.35  # share of a clip's frames in which what stands still was seen


@dataclass(frozen=True, slots=True)
class Raw:
    """A detection of one detector: its name, class, score and ``x, y, width, height`` in 0..1."""

    detector: str
    label: str
    score: float
    box: Box


@dataclass(frozen=True, slots=True)
class Vote:
    family: str  # one of the values of `FAMILY`
    box: Box  # ``x, y, width, height`` in 0..1 of the frame, the mean weighted by score
    p: float  # probability 0..1 that it is there
    kinds: tuple[tuple[str, float], ...]  # shares of classes within the family, sum 1; empty: unnamed
    detectors: int  # how many different detectors see it

    @property
    def sure(self) -> bool:
        large = area(self.box) > _LARGE and self.detectors < _AGREED
        return self.p >= LIKELY and not large


_NO_KIND = {"vehicle", "bike"}


def merge_votes(found: Sequence[Raw]) -> list[Vote]:
    """The candidates of one frame, those below `UNLIKELY` left out."""
    votes: list[Vote] = []
    for family in sorted({FAMILY[raw.label] for raw in found if raw.label in FAMILY}):
        own = sorted((r for r in found if FAMILY.get(r.label) == family), key=lambda r: -r.score)
        votes += _of_family(family, own)
    return [vote for vote in votes if vote.p >= UNLIKELY]


def _of_family(family: str, own: list[Raw]) -> list[Vote]:
    shares = overlaps([r.box for r in own], [r.box for r in own])
    taken = np.zeros(len(own), bool)
    votes = []
    for i in range(len(own)):
        if taken[i]:
            continue
        rows = [j for j in np.flatnonzero(~taken & (shares[i] >= SAME)) if j >= i]
        taken[rows] = True
        votes.append(_one(family, [own[j] for j in rows]))
    return votes


def _one(family: str, group: list[Raw]) -> Vote:
    best: dict[str, float] = {}
    for raw in group:
        best[raw.detector] = max(best.get(raw.detector, 0.0), raw.score)
    p = 1 - float(np.prod([1 - TRUST * s for s in best.values()]))
    weights = np.array([raw.score for raw in group]) ** 2
    box = (np.array([raw.box for raw in group]) * weights[:, None]).sum(0) / weights.sum()
    kinds: dict[str, float] = {}
    for raw in group:
        if raw.label not in _NO_KIND:
            kinds[raw.label] = kinds.get(raw.label, 0.0) + raw.score**2
    total = sum(kinds.values())
    shares = tuple((name, share / total) for name, share in sorted(kinds.items()))
    return Vote(family, box_of(box), p, shares, len(best))


def clean_votes(clip: Sequence[Sequence[Vote]], thumbnails: Sequence[NDArray[np.uint8]]) -> list[list[Vote]]:
    """The votes of a clip's evenly sampled frames, cleaned by time.

    What was believed in one frame alone, with nothing like it in its neighbours, falls to what is not learnt
    from; what stood still is believed wherever the pixels there are as where it was seen: `thumbnails` are
    the same frames, small, grey uint8 ``(h, w)``.
    """
    result = [list(votes) for votes in clip]
    for t, votes in enumerate(clip):
        near = [v for n in (t - 2, t - 1, t + 1, t + 2) if 0 <= n < len(clip) for v in clip[n]]
        for k, vote in enumerate(votes):
            if vote.sure and vote.detectors < 3 and len(clip) > 4 and not _seen_again(vote, near):  # noqa: PLR2004
                result[t][k] = replace(vote, p=(LIKELY + UNLIKELY) / 2)
    for still, seen in _stills(clip):
        for t in range(len(clip)):
            if t not in seen and _is_unchanged(still.box, thumbnails, t, seen):
                result[t] = _put(result[t], still)
    return result


def _seen_again(vote: Vote, near: Sequence[Vote]) -> bool:
    """True where another of its family and about its size is nearby, within three of its sizes."""
    x, y, w, h = vote.box
    for other in near:
        if other.family != vote.family:
            continue
        a, b, c, d = other.box
        alike = 0.4 < (c * d) / max(w * h, 1e-9) < 2.5  # noqa: PLR2004 - the same thing, nearer or farther
        if alike and abs(x + w / 2 - a - c / 2) <= 3 * w + 0.02 and abs(y + h / 2 - b - d / 2) <= 3 * h:
            return True
    return False


def _stills(clip: Sequence[Sequence[Vote]]) -> list[tuple[Vote, set[int]]]:
    """Votes that stand still, and the frames that have them."""
    groups: list[tuple[Vote, set[int]]] = []
    for t, votes in enumerate(clip):
        for vote in votes:
            own = [g for g in groups if g[0].family == vote.family]
            shares = overlaps([vote.box], [g[0].box for g in own])[0]
            if own and shares.max() >= _STILL:
                own[int(shares.argmax())][1].add(t)
            elif vote.sure:
                groups.append((vote, {t}))
    return [g for g in groups if len(g[1]) >= max(_OFTEN * len(clip), 4)]


def _is_unchanged(box: Box, thumbnails: Sequence[NDArray[np.uint8]], t: int, seen: set[int]) -> bool:
    nearest = min(seen, key=lambda s: abs(s - t))
    height, width = thumbnails[t].shape
    x, y, w, h = box
    rows = slice(int(y * height), max(int((y + h) * height), int(y * height) + 1))
    columns = slice(int(x * width), max(int((x + w) * width), int(x * width) + 1))
    a, b = (thumbnails[n][rows, columns].astype(np.float32) for n in (t, nearest))
    return float(np.abs((a - a.mean()) - (b - b.mean())).mean()) < 6  # noqa: PLR2004 - grey levels: noise


def _put(votes: list[Vote], still: Vote) -> list[Vote]:
    """Votes among which what stands still is believed, in place of weaker ones there."""
    shares = overlaps([still.box], [v.box for v in votes])[0] if votes else np.zeros(0)
    if any(v.family == still.family and s >= SAME and v.sure for v, s in zip(votes, shares, strict=True)):
        return votes
    kept = [v for v, s in zip(votes, shares, strict=True) if v.family != still.family or s < SAME]
    return [*kept, replace(still, p=LIKELY)]
