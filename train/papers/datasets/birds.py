"""Birds: Birds-to-Words (Forbes et al. 2019), captions of CUB-200-2011 (Reed et al. 2016), NABirds classes.

* Birds-to-Words: ``birds-to-words-v1.0.tsv`` of eleven columns, a line per annotation. The release has
  addresses, no images: photo ``.../photos/647514/large.jpg`` is expected as ``images/647514.jpg`` (or .jpeg,
  .png). A description is one sentence of ours, however many it has: they refer to each other.
* CUB: ``images.txt``, ``images/<class>/<file>.jpg`` and ``text_c10/<class>/<file>.txt`` of ten captions.
* NABirds: ``images.txt``, ``image_class_labels.txt``, ``classes.txt``, ``images/<class>/<file>.jpg``.
"""

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

from train.samples import Sample, SampleError, has_words, read_text

TABLE = "birds-to-words-v1.0.tsv"
COLUMNS = (
    *("img1ObservationURL", "img1ImgURL", "img1Species", "img1Selection"),
    *("img2ObservationURL", "img2ImgURL", "img2Species", "img2Selection"),
    *("split", "annN", "description"),
)
_ENDINGS = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, slots=True)
class SingleImage:
    path: Path  # of the file
    captions: tuple[str, ...]  # what people wrote about it; empty of NABirds
    label: str  # the name of its class


def load_birds_to_words(folder: Path, split: str) -> list[Sample]:
    """The pairs of a split; images are not opened."""
    path = folder / TABLE
    rows = csv.DictReader(io.StringIO(read_text(path)), delimiter="\t", quoting=csv.QUOTE_NONE)
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise SampleError(f"{path}: expected the columns {', '.join(COLUMNS)}; fetch version 1.0 again")
    results: dict[str, Sample] = {}
    for number, row in enumerate(rows, 2):
        if row["split"] != split:
            continue
        first, second = (_photo(path, number, row[key]) for key in ("img1ImgURL", "img2ImgURL"))
        text = " ".join((row["description"] or "").split())
        if not has_words(text):
            continue
        name = f"{first}_{second}"
        if name in results:
            results[name] = replace(results[name], further=(*results[name].further, (text,)))
        else:
            before, after = (_image(folder / "images", photo) for photo in (first, second))
            results[name] = Sample(name, before, after, (text,), kind="birds")
    if not results:
        raise SampleError(f"{path} describes no pair of the split {split}; it has train, val and test")
    return list(results.values())


def load_cub(folder: Path) -> list[SingleImage]:
    """The images of CUB-200-2011 that have captions."""
    results = []
    for _, name in _rows_of(folder / "images.txt"):
        path = folder / "text_c10" / Path(name).with_suffix(".txt")
        lines = (" ".join(line.split()) for line in read_text(path).splitlines())
        captions = tuple(line for line in lines if has_words(line))
        if not captions:
            raise SampleError(f"{path} has no caption with a word in it; fetch it again")
        results.append(SingleImage(folder / "images" / name, captions, Path(name).parent.name))
    return results


def load_nabirds(folder: Path) -> list[SingleImage]:
    names = dict(_rows_of(folder / "classes.txt"))
    labels = dict(_rows_of(folder / "image_class_labels.txt"))
    results = []
    for key, name in _rows_of(folder / "images.txt"):
        number = labels.get(key)
        if number is None or number not in names:
            labelled = folder / "image_class_labels.txt"
            raise SampleError(f"{labelled}: image {key} has no class of classes.txt; fetch both again")
        # Two classes may have one name (male and female differ by number).
        results.append(SingleImage(folder / "images" / name, (), f"{number} {names[number]}"))
    return results


def _rows_of(path: Path) -> list[tuple[str, str]]:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        key, _, value = line.strip().partition(" ")
        if not value:
            raise SampleError(f"{path}, line {number}: expected a key and a value, found {line!r}")
        rows.append((key, value.strip()))
    if not rows:
        raise SampleError(f"{path} names nothing; fetch it again")
    return rows


def _photo(path: Path, number: int, address: str | None) -> str:
    match = re.search(r"/photos/(\d+)", address or "")
    if match is None:
        raise SampleError(f"{path}, line {number}: {address!r} is not the address of an iNaturalist photo")
    return match[1]


def _image(folder: Path, photo: str) -> Path:
    return next((p for e in _ENDINGS if (p := folder / f"{photo}{e}").is_file()), folder / f"{photo}.jpg")
