"""The appearance of an object where it is certain: the colour of a vehicle, the clothes of a person.

A camera's white is rarely white and a car is never one colour: it has black tyres and glass, stands on its
own shadow, and mirrors the sky. So only what changed inside its box is looked at, without its lowest part,
the scene's own cast is taken off, and a colour is named only if most of what is left agrees on it; nothing is
said of what lies between two colours. Of people the chest is looked at, and of those in dark or light clothes
the legs as well: in the narrow middle of a tall box there is hardly any background.

A track is looked at while it stands clear, and its colour is what most of these looks show. One look may show
the background, who passes by or a reflection, but these change from look to look; so a look that is one vote
of several may be less sure than one that decides alone (`VOTED_SHADES`, `VOTED_BRIGHTNESS`).

The thresholds were chosen on training cameras. One reader named the colours of tracks before any was said: of
129 sentences with a colour 119 are right and one is wrong, the other nine are of silver called white or of
two colours (two frames of an event, by what changed in them: 189, 15 and 17 of 221). For stills, of 77 names
of vehicles 71 are those that a network gives (vehicle-attributes-recognition-barrier-0039, where it is surer
than .9), and of the other six it is wrong about at least two. Of 87 names of what people wear four are wrong
or half wrong, read by eye once; of 97 of both on single frames of other training clips, a fast reader found
14 wrong, 12 of them of vehicles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from models.boxes import Box
from models.captioner import Sentence
from models.detections import overlaps, shared_areas
from models.families import PEOPLE, VEHICLES
from models.language.catalogue import in_english
from models.language.templates import render
from pipeline import settings
from pipeline.sources import Image
from pipeline.tracking.tracks import Track, cover

_Floats = NDArray[np.float32]
_LABELS = dict.fromkeys(PEOPLE, "person") | {name: name for name in VEHICLES}


@dataclass(frozen=True, slots=True)
class Cast:
    """The grey of a scene and its lightness, in CIE Lab."""

    a: float  # both of its neutral pixels
    b: float
    middle: float  # median of L, 1..100

    @property
    def lighter(self) -> float:
        return self.middle - settings.ROAD_LIGHTNESS

    @property
    def is_strong(self) -> bool:
        return bool(np.hypot(self.a, self.b) > settings.CAST_STRONG_CHROMA)


def scene_cast(image: Image, changed: NDArray[np.bool_]) -> Cast:
    """The cast of a scene RGB uint8 ``(h, w, 3)``: of what has little colour in it and did not change.

    `changed` is bool of any size: a truck that fills half of the frame is no scene.
    """
    size = settings.CAST_PIXELS
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    still = cv2.resize(changed.astype(np.float32), size, interpolation=cv2.INTER_AREA).ravel() == 0
    pixels = _lab(np.asarray(small, np.uint8)).reshape(-1, 3)
    pixels = pixels[still] if still.mean() > settings.CAST_SHARE else pixels
    lightness, a, b = pixels.T
    dark, bright = settings.CAST_LIGHTNESS
    neutral = (lightness > dark) & (lightness < bright) & (np.hypot(a, b) < settings.CAST_CHROMA)
    some = neutral if neutral.mean() > settings.CAST_SHARE else np.ones_like(neutral)
    return Cast(float(np.median(a[some])), float(np.median(b[some])), max(float(np.median(lightness)), 1.0))


@dataclass(slots=True)
class ColourVotes:
    """What looks at the open tracks of a camera have shown: they live as long as this process."""

    by_track: dict[str, Counter[str]] = field(default_factory=dict)  # looks by name; "" where not sure
    _looked_s: float = -np.inf
    _cast: tuple[float, Cast] | None = None  # of the scene, and when

    def update(self, tracks: Sequence[Track], time_s: float, image: Image) -> None:
        """Look at the tracks that stand clear in a frame RGB uint8 ``(h, w, 3)``, every `LOOK_S`."""
        for ended in self.by_track.keys() - {track.id for track in tracks}:
            del self.by_track[ended]
        if 0 <= time_s - self._looked_s < settings.LOOK_S:
            return
        seen = [track for track in tracks if track.unseen_s == 0]
        clear = [seen[k] for k in np.flatnonzero(_stand_clear(seen, image.shape)).tolist()]
        due = [t for t in clear if t.object in _LABELS and self._looks(t) < settings.LOOKS_MOST]
        due.sort(key=self._looks)
        if not due:
            return
        if self._cast is None or not 0 <= time_s - self._cast[0] < settings.CAST_S:
            self._cast = time_s, scene_cast(image, cover(seen, settings.CAST_PIXELS[::-1]))
        self._looked_s = time_s
        for track in due[: settings.LOOKS_AT_ONCE]:
            look = look_name(image, _LABELS[track.object], track.last.box, None, self._cast[1])
            self.by_track.setdefault(track.id, Counter())[look or ""] += 1

    def _looks(self, track: Track) -> int:
        return self.by_track.get(track.id, Counter[str]()).total()

    def colour(self, track: str) -> str:
        """The colour that at least two looks and most looks at a track show; empty where there is none."""
        votes = self.by_track.get(track, Counter[str]())
        for name, most in votes.most_common(1):
            if most >= settings.LOOKS_AGREE and 2 * most > votes.total():
                return name
        return ""


def colour_name(image: Image, box: Box, mask: NDArray[np.bool_] | None, cast: Cast) -> str | None:
    """The colour of a vehicle, one of `models.language.templates.COLOURS`; None where it is not sure.

    The image is the frame RGB uint8 ``(h, w, 3)``, of which the box is in 0..1 and the mask, bool of any
    size, says what changed. Without one this is a look of several, and all of the box counts.
    """
    shades = settings.SHADES if mask is not None else settings.VOTED_SHADES
    pixels = _pixels(image, box, mask, settings.COLOUR_BODY, settings.COLOUR_SHARE)
    if len(pixels) < settings.COLOUR_PIXELS or cast.is_strong:
        return None
    (lightness, a, b), vivid = _without_cast(pixels, cast)
    if vivid.mean() > settings.HUE_SHARE:
        return _hue_name((lightness, a, b), vivid, settings.HUE_SHARE)
    tint = float(np.hypot(a.mean(), b.mean()) / max(lightness.mean(), settings.TINT_LIGHTNESS))
    if vivid.mean() < settings.PALE_SHARE and tint < settings.PALE_TINT:
        is_burnt, level = lightness > settings.BURNT_LIGHTNESS, lightness - cast.lighter
        level = np.where(is_burnt, 100, level)
        for name, (low, high, least) in shades.items():
            if np.mean((level >= low) & (level < high)) >= least:
                is_silver = name == "white" and np.percentile(lightness, 75) < settings.WHITE_LIGHTNESS
                return None if is_silver else name
    return None


def clothes_name(image: Image, box: Box, mask: NDArray[np.bool_] | None, cast: Cast) -> str | None:
    """A person's clothes, one of `models.language.templates.CLOTHES`, or None; `box` is all of the person."""
    brightness = settings.BRIGHTNESS if mask is not None else settings.VOTED_BRIGHTNESS
    height, width = image.shape[:2]
    cut = box[1] <= 0 or box[1] + box[3] >= 1
    upright = box[3] * height >= settings.UPRIGHT_RATIO * box[2] * width
    if cut or not upright or cast.is_strong:
        return None
    chest, legs = _pixels(image, box, mask, settings.CHEST), _pixels(image, box, mask, settings.LEGS)
    if min(len(chest), len(legs)) < settings.CLOTH_PIXELS:
        return None
    colours, vivid = _without_cast(chest, cast)
    if vivid.mean() > settings.WORN_SHARE:
        return _hue_name(colours, vivid, settings.WORN_SHARE)
    if vivid.mean() > settings.PALE_SHARE:
        return None
    level, below = colours[0] - cast.lighter, float(np.median(legs[:, 0])) - cast.lighter
    for name, (low, high, least, legs_low, legs_high) in brightness.items():
        if np.mean((level >= low) & (level < high)) >= least and legs_low <= below < legs_high:
            return name
    return None


def look_name(image: Image, label: str, box: Box, mask: NDArray[np.bool_] | None, cast: Cast) -> str | None:
    if label in VEHICLES:
        return colour_name(image, box, mask, cast)
    return clothes_name(image, box, mask, cast) if label == "person" else None


def with_colours(
    sentences: Sequence[Sentence], before: Image, after: Image, changed: NDArray[np.bool_]
) -> list[Sentence]:
    """Sentences that say how a single vehicle or person looks where it is sure of it.

    What was and is there must not look differently; a sentence without a box for each side says nothing.
    The frames are RGB uint8 ``(h, w, 3)``, `changed` is bool of any size.
    """
    images, said = (before, after), list[Sentence]()
    cast = cache(lambda side: scene_cast(images[side], changed))
    for sentence in sentences:
        statement, label = sentence.statement, sentence.object
        if statement and not statement.other and sentence.count == 1 and label in VEHICLES | PEOPLE:
            boxes = enumerate((sentence.before, sentence.after))
            names = {look_name(images[k], label, box, changed, cast(k)) for k, box in boxes if box} - {None}
            if len(names) == 1:
                statement = replace(statement, colour=str(names.pop()))
                text, english = render(statement), in_english(render, statement)
                sentence = replace(sentence, text=text, english=english, statement=statement)  # noqa: PLW2901
        said.append(sentence)
    return said


def _hue_name(colours: tuple[_Floats, ...], vivid: NDArray[np.bool_], alike: float) -> str | None:
    """The colour of vivid pixels, where at least `alike` of all have it."""
    (lightness, a, b), share = (each[vivid] for each in colours), float(vivid.mean())
    hues, chroma = np.degrees(np.arctan2(b, a)) % 360, np.hypot(a, b)
    for name, (start, end) in settings.HUES.items():
        inside = (hues >= start) & (hues <= end) if start < end else (hues >= start) | (hues <= end)
        if share * inside.mean() > alike and share * (1 - inside.mean()) < settings.OTHER_HUES_SHARE:
            strong = float(np.median(chroma[inside]))
            if name == "blue" and strong < settings.BLUE_CHROMA:
                return None
            dull = np.median(lightness[inside]) < settings.BROWN[0] and strong < settings.BROWN[1]
            return "brown" if name == "orange" and dull else name
    return None


def _without_cast(pixels: _Floats, cast: Cast) -> tuple[tuple[_Floats, ...], NDArray[np.bool_]]:
    """Lightness, a and b of Lab pixels ``(N, 3)``, and which are vivid; light tints what is dark less."""
    lightness, share = pixels[:, 0], np.minimum(pixels[:, 0] / cast.middle, 1)
    a, b = pixels[:, 1] - share * cast.a, pixels[:, 2] - share * cast.b
    chroma = np.hypot(a, b)
    vivid = (chroma > settings.VIVID_CHROMA) & (chroma > settings.VIVID_SATURATION * lightness)
    return (lightness, a, b), np.asarray(vivid)


def _stand_clear(seen: Sequence[Track], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which are large enough, and neither cut by the frame's edge nor behind another one, bool ``(N,)``."""
    boxes = np.array([track.last.box for track in seen]).reshape(-1, 4)
    areas, ends = boxes[:, 2] * boxes[:, 3], boxes[:, :2] + boxes[:, 2:]
    edge = np.hstack([boxes[:, :2], 1 - ends]).min(1)
    shared, certain = shared_areas(boxes, boxes), np.array([t.state == "confirmed" for t in seen], np.bool_)
    nearer = certain & (ends[:, 1] > ends[:, 1, None]) & (overlaps(boxes, boxes) <= settings.LOOK_SAME_IOU)
    hidden = (nearer & (shared > settings.LOOK_HIDDEN_SHARE * areas[:, None])).any(1)
    large = areas * shape[0] * shape[1] >= settings.LOOK_PIXELS
    return np.asarray(large & (edge >= settings.EDGE_SHARE) & ~hidden)


def _pixels(image: Image, box: Box, mask: NDArray[np.bool_] | None, part: Box, least: float = 0) -> _Floats:
    """Lab values ``(N, 3)`` of what changed in a part of a box, none where that is less than a share of it.

    The part is left, top, right and bottom in 0..1 of the box.
    """
    height, width = image.shape[:2]
    x, y, across, down = box
    x0, x1 = (round(min(max(x + share * across, 0), 1) * width) for share in (part[0], part[2]))
    y0, y1 = (round(min(max(y + share * down, 0), 1) * height) for share in (part[1], part[3]))
    if x1 <= x0 or y1 <= y0:
        return np.zeros((0, 3), np.float32)
    if mask is None:
        return _lab(image[y0:y1, x0:x1]).reshape(-1, 3)
    rows = (np.arange(y0, y1) + 0.5) * mask.shape[0] / height
    columns = (np.arange(x0, x1) + 0.5) * mask.shape[1] / width
    changed = mask[np.ix_(rows.astype(int), columns.astype(int))]
    changed &= bool(changed.mean() >= least)
    return _lab(image[y0:y1, x0:x1])[changed]


def _lab(image: Image) -> _Floats:
    """CIE Lab, float32 of the same shape: L 0..100, a and b about -100..100."""
    return np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2Lab), np.float32)
