"""Public sets of image pairs and of birds, read in the layouts in which they were released.

Spot-the-diff's layout is also that of the generated benchmark and of pairs of real footage.

CLEVR-Change (Park, Darrell and Rohrbach 2019): ``images/CLEVR_default_000000.png`` is the before frame,
``sc_images/CLEVR_semantic_000000.png`` the one in which something changed,
``nsc_images/CLEVR_nonsemantic_000000.png`` the distractor. ``change_captions.json`` and
``no_change_captions.json`` map the default image's name to its captions, ``splits.json`` the split to the
numbers of its scenes (or names with them, ``000000``), and ``type_mapping.json`` (not needed) the type of
change (color, material, add, drop, move) to ``"000000.png"``. A scene gives two pairs, ``000000`` and its
distractor ``000000_n``, the names of the authors' own scorer. A pair without a word in its captions is left
out.

Birds-to-Words (Forbes et al. 2019): ``birds-to-words-v1.0.tsv`` of eleven columns, a line per annotation. The
release has addresses, no images: photo ``.../photos/647514/large.jpg`` is expected as ``images/647514.jpg``
(or .jpeg, .png). A description is one sentence of ours, however many it has: they refer to each other.

For the data expansion of IDC-PCL single birds: captions of CUB-200-2011 (Reed et al. 2016) in ``images.txt``,
``images/<class>/<file>.jpg`` and ``text_c10/<class>/<file>.txt`` of ten captions; classes of NABirds in
``images.txt``, ``image_class_labels.txt``, ``classes.txt`` and ``images/<class>/<file>.jpg``.
"""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from train.samples import SPLITS, Sample, SampleError, has_words, load_samples, read_json, read_text

SPOT_THE_DIFF = {"train": 8_566, "val": 1_493, "test": 1_270}  # distinct image ids
CLEVR_CHANGE = {"train": 67_660, "val": 3_976, "test": 7_970}
"""Pairs of every split in the release, changed ones and distractors: 79,606 of 39,803 scenes."""

SPLIT_FILE, TYPE_FILE = "splits.json", "type_mapping.json"
_CHANGED = ("change_captions.json", "", "sc_images", "semantic")
_DISTRACTOR = ("no_change_captions.json", "_n", "nsc_images", "nonsemantic")
_NAMES = TypeAdapter(dict[str, list[int | str]])
_CAPTIONS = TypeAdapter(dict[str, list[str]])


def load_pairs(folder: Path, split: str, *, require_images: bool = True) -> list[Sample]:
    """The pairs of a split of Spot-the-diff, CLEVR-Change or Birds-to-Words as released, or of ours."""
    samples = _loader(folder)[1](folder, split)
    if require_images:
        wanted = dict.fromkeys(path for sample in samples for path in (sample.before, sample.after))
        missing = [path for path in wanted if not path.is_file()]
        if missing:
            raise SampleError(
                f"{folder}, {split}: {len(missing)} of {len(wanted)} images are missing, the first is "
                f"{missing[0]}; unpack the images again"
            )
    return samples


def has_split(folder: Path, split: str) -> bool:
    try:
        return bool(load_pairs(folder, split, require_images=False))
    except SampleError:
        return False


def incomplete_splits(folder: Path) -> list[str]:
    """A line for every split that is not as it was released: missing images, missing pairs."""
    sizes, load = _loader(folder)
    lines = []
    for split in SPLITS:
        try:
            result = len({sample.id for sample in load(folder, split)})
            if sizes.get(split, 0) * 0.98 > result:  # some ids have no sentence with a word
                lines.append(f"{split}: {result} of {sizes[split]} pairs are named: a part of the release")
            load_pairs(folder, split)
        except SampleError as error:
            lines.append(f"{split}: {error}")
    return lines


def _loader(folder: Path) -> tuple[dict[str, int], Callable[[Path, str], list[Sample]]]:
    """The released size of each split, where it is known, and the function that reads one."""
    if not folder.is_dir():
        raise SampleError(f"{folder} is not a folder; name the one that holds the set")
    if (folder / SPLIT_FILE).is_file():
        return CLEVR_CHANGE, load_clevr_change
    if (folder / TABLE).is_file():
        return {}, load_birds_to_words
    if any((folder / f"{split}.json").is_file() for split in SPLITS):
        ours = any((folder / f"{name}.json").is_file() for name in ("generated", "footage"))
        return ({} if ours else SPOT_THE_DIFF), load_samples
    raise SampleError(
        f"{folder} holds no set that is known: Spot-the-diff has train.json, val.json and test.json, "
        f"CLEVR-Change {SPLIT_FILE}, Birds-to-Words {TABLE}"
    )


def load_clevr_change(folder: Path, split: str) -> list[Sample]:
    """The changed pairs and distractors of a split, scene by scene; images are not opened.

    The kind is the type of change or "distractor"; every caption is an annotator of its own.
    """
    path, types = folder / SPLIT_FILE, _types(folder)
    sources = [(source, read_json(folder / source[0], _CAPTIONS)) for source in (_CHANGED, _DISTRACTOR)]
    samples = []
    for scene in _scenes(path, split):
        before = folder / "images" / f"CLEVR_default_{scene:06d}.png"
        for (file, ending, images, name), captions in sources:
            if before.name not in captions:
                raise SampleError(f"{folder / file} has no caption of {before.name}, which {path} names")
            said = [" ".join(text.split()) for text in captions[before.name] if has_words(text)]
            if not said:
                continue
            after = folder / images / f"CLEVR_{name}_{scene:06d}.png"
            kind = "distractor" if ending else types.get(scene, "changed")
            further = tuple((text,) for text in said[1:])
            samples.append(
                Sample(f"{scene:06d}{ending}", before, after, (said[0],), kind=kind, further=further)
            )
    if not samples:
        raise SampleError(f"{path}: no pair of {split} has a caption with a word; fetch the captions again")
    return samples


def _scenes(path: Path, split: str) -> list[int]:
    splits = read_json(path, _NAMES)
    if split not in splits:
        raise SampleError(f"{path} has no list {split!r}; it has {', '.join(splits) or 'nothing'}")
    return list(dict.fromkeys(_number(path, name) for name in splits[split]))


def _types(folder: Path) -> dict[int, str]:
    path = folder / TYPE_FILE
    content = read_json(path, _NAMES) if path.is_file() else {}
    return {_number(path, name): kind for kind, names in content.items() for name in names}


def _number(path: Path, name: int | str) -> int:
    """The number in a name such as 17, 000017, 000017.png or CLEVR_default_000017.png."""
    number = str(name).split(".")[0].split("_")[-1]
    if not number.isdecimal():
        raise SampleError(f"{path} holds {name!r}, expected numbers of scenes or names such as 000000.png")
    return int(number)


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
