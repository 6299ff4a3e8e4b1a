"""The gallery: random narrations of unseen cameras on one page, to be read by eye, and how right they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from models.boxes import Box
from models.captioner import Captioner, DescribeOptions, Sentence
from pipeline.disk import replace_file
from pipeline.report.pages import environment
from pipeline.report.picture import SIDES, draw_marks, encode, marks
from pipeline.sources import Image
from train.frame_pairs import frame_pair
from train.gallery.pairs import Figures, GalleryPair, figures, tell
from train.gallery.verdicts import FAULTS, Verdict
from train.progress import Count
from train.samples import Sample, SampleError

_PANEL = (384, 288)
_AROUND = 2.2  # a crop shows this many times the sides of what is told
_LEAST = 0.3  # of the frame's height, so that a small thing is seen with what is around it


@dataclass(frozen=True, slots=True, eq=False)
class Card:
    """One sentence on the page.

    Attributes:
        subject: the pair that it is about.
        sentence: what was told.
        verdict: None where the truth is not known.
        before, after: WebP crops around it, with what it marks on that side.
        window: the crop, ``(x, y, width, height)`` in 0..1 of the frame.
    """

    subject: GalleryPair
    sentence: Sentence
    verdict: Verdict | None
    before: bytes
    after: bytes
    window: Box

    @property
    def known(self) -> str:
        """The truth that the sentence was judged by, in words."""
        if self.verdict is None:
            return ""
        truth = [self.subject.sample.changes[k] for k in self.verdict.tells]
        return ", ".join(f"{c.type} {c.object}" + (f" ({c.count})" if c.count > 1 else "") for c in truth)


def read_pairs(path: Path) -> list[Sample]:
    """One's own pictures: JSON Lines of ``{"id", "before", "after"}``, paths relative to the file's folder.

    Raises:
        SampleError: the file cannot be read, or a line is not such an object.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SampleError(f"{path} cannot be read ({error}); give a file of JSON Lines") from error
    samples = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            pair = json.loads(line)
            before, after = (path.parent / str(pair[side]) for side in ("before", "after"))
            samples.append(Sample(str(pair["id"]), before, after, (), camera=str(pair.get("camera", ""))))
        except (ValueError, KeyError, TypeError):
            raise SampleError(
                f'{path}:{number}: not a JSON object {{"id": .., "before": path, "after": path}}'
            ) from None
    return samples


def of_cameras(samples: Sequence[Sample], cameras: Sequence[str]) -> list[Sample]:
    """The samples of some cameras; all of them where no camera is named.

    Raises:
        SampleError: there is no sample of a camera.
    """
    there = sorted({sample.camera for sample in samples})
    for camera in cameras:
        if camera not in there:
            raise SampleError(f"no sample of the camera {camera!r}; there are {', '.join(there)}")
    return [sample for sample in samples if not cameras or sample.camera in cameras]


def make_gallery(
    samples: Sequence[Sample],
    captioner: Captioner,
    out: Path,
    *,
    source: str,
    truth: bool,
    number: int = 100,
    seed: int = 1,
    options: DescribeOptions | None = None,
    progress: Count | None = None,
) -> tuple[int, Figures | None]:
    """Narrate all samples and show some of their sentences on a page.

    Args:
        samples: pairs of unseen cameras.
        captioner: any.
        out: the page.
        source: what the samples are, for the page's head.
        truth: whether the samples' changes are known, so that the sentences can be judged.
        number: at most this many sentences are shown.
        seed: which ones.
        options: how sentences are chosen; None as narrated chooses them.
        progress: see `train.gallery.pairs.tell`.

    Returns:
        How many sentences are shown, and the figures of all; None without truth.

    Raises:
        SampleError: a picture cannot be read, or the page cannot be written.
    """
    pairs = tell(samples, captioner, truth=truth, options=options, progress=progress)
    measured = figures(pairs) if truth else None
    cards = chosen(pairs, number, seed)
    cameras = sorted({sample.camera for sample in samples} - {""})
    sentences = sum(len(each.sentences) for each in pairs)
    facts = [
        ("Captioner", f"{captioner.name} (sha256 {captioner.sha256[:12]})"),
        ("Pairs", f"{len(samples)} of {source}" + (f"; cameras {', '.join(cameras)}" if cameras else "")),
        ("Sentences", f"{sentences}, of which {len(cards)} are shown, drawn with seed {seed}"),
        *(_truth(measured) if measured else ()),
    ]
    title = "What it says, and whether it is right" if truth else "What it says"
    write_gallery(out, title, facts, cards, measured)
    return len(cards), measured


def _truth(measured: Figures) -> list[tuple[str, str]]:
    missed = measured.changes - measured.found
    return [
        ("Truth", "as the samples state it; what their detector overlooked is judged as nothing there"),
        ("Changes", f"{measured.changes}, of which {missed} have no right sentence"),
        (
            "Without a change",
            f"{measured.unchanged} pairs, about {measured.alarms} of which it says something",
        ),
    ]


def chosen(pairs: Sequence[GalleryPair], number: int, seed: int) -> list[Card]:
    """At most `number` random sentences, each as likely as any other, as cards in random order."""
    places = [(each, k) for each in pairs for k in range(len(each.sentences))]
    order = np.random.default_rng(seed).permutation(len(places))[:number]
    return [_card(*places[i]) for i in order.tolist()]


def write_gallery(
    path: Path, title: str, facts: Sequence[tuple[str, str]], cards: Sequence[Card], measured: Figures | None
) -> None:
    """Write the page as a whole: self-contained HTML that needs no network and no JavaScript.

    Args:
        path: of the page; replaced where it exists.
        title: its heading.
        facts: ``(name, value)`` for its head.
        cards: the sentences.
        measured: None where the truth is not known.

    Raises:
        SampleError: the page cannot be written.
    """
    page = (
        environment(__package__)
        .get_template("gallery.html.j2")
        .render(title=title, facts=facts, cards=cards, figures=measured, faults=FAULTS, share=_share)
    )
    try:
        replace_file(path, page.encode(), durable=False)
    except OSError as error:
        raise SampleError(f"{path} cannot be written ({error.strerror}); choose another --out") from error


def _share(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value * 100:.0f} %"


def _card(subject: GalleryPair, number: int) -> Card:
    sentence = subject.sentences[number]
    pair = frame_pair(subject.sample)
    window = _window(sentence, pair.before.image.shape)
    before, after = (
        encode(_crop(draw_marks(frame.image, marks([sentence], side), numbered=False), window))
        for frame, side in zip((pair.before, pair.after), SIDES, strict=True)
    )
    verdict = subject.verdicts[number] if subject.verdicts else None
    return Card(subject, sentence, verdict, before, after, window)


def _window(sentence: Sentence, shape: tuple[int, ...]) -> Box:
    """A part of the frame in the panel's proportions around all boxes of a sentence."""
    boxes = [b for b in (sentence.box, sentence.before, sentence.after) if b is not None]
    if not boxes:
        return (0.0, 0.0, 1.0, 1.0)
    rows, columns = shape[:2]
    x, y = min(b[0] for b in boxes), min(b[1] for b in boxes)
    right, bottom = max(b[0] + b[2] for b in boxes), max(b[1] + b[3] for b in boxes)
    proportion = _PANEL[0] / _PANEL[1]
    height = max((bottom - y) * rows, (right - x) * columns / proportion) * _AROUND
    height = min(max(height, _LEAST * rows), rows, columns / proportion)
    across, down = height * proportion / columns, height / rows
    left = min(max((x + right - across) / 2, 0.0), 1 - across)
    top = min(max((y + bottom - down) / 2, 0.0), 1 - down)
    return left, top, across, down


def _crop(image: Image, window: Box) -> Image:
    """The window at the panel's size, uint8 RGB."""
    rows, columns = image.shape[:2]
    x, y, across, down = window
    part = image[
        round(y * rows) : round((y + down) * rows), round(x * columns) : round((x + across) * columns)
    ]
    smaller = part.shape[1] > _PANEL[0]
    return np.asarray(
        cv2.resize(part, _PANEL, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC), np.uint8
    )
