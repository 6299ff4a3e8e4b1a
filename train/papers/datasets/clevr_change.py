"""CLEVR-Change (Park, Darrell and Rohrbach 2019) in its released layout.

``images/CLEVR_default_000000.png`` is the before frame, ``sc_images/CLEVR_semantic_000000.png`` the one in
which something changed, ``nsc_images/CLEVR_nonsemantic_000000.png`` the distractor. ``change_captions.json``
and ``no_change_captions.json`` map the default image's name to its captions, ``splits.json`` the split to the
numbers of its scenes (or names with them, ``000000``), and ``type_mapping.json`` (not needed) the type of
change (color, material, add, drop, move) to ``"000000.png"``. A scene gives two pairs, ``000000`` and its
distractor ``000000_n``, the names of the authors' own scorer. A pair without a word in its captions is left
out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from train.papers.datasets.files import list_of, named_captions, object_of, read_json
from train.samples import Sample, SampleError, worded

SIZES = {"train": 67_660, "val": 3_976, "test": 7_970}
"""Pairs of every split in the release, changed ones and distractors: 79,606 of 39,803 scenes."""

CAPTIONS, NO_CAPTIONS, SPLIT_FILE = "change_captions.json", "no_change_captions.json", "splits.json"
TYPE_FILE = "type_mapping.json"


def load_clevr_change(folder: Path, split: str) -> list[Sample]:
    """The changed pairs and distractors of a split, scene by scene; images are not opened.

    Args:
        folder: the release.
        split: train, val or test.

    Returns:
        Samples whose kind is the type of change ("changed" where it is not known) or "distractor"; every
        caption is an annotator of its own.

    Raises:
        SampleError: a file is missing or broken, a scene of the split has no caption, or no caption a word.
    """
    path = folder / SPLIT_FILE
    captions = named_captions(folder / CAPTIONS)
    unchanged = named_captions(folder / NO_CAPTIONS)
    types = _types(folder)
    samples = []
    for scene in _scenes(path, split):
        number = f"{scene:06d}"
        before = folder / "images" / f"CLEVR_default_{number}.png"
        for name, by_name, file, after, kind in (
            (
                number,
                captions,
                CAPTIONS,
                folder / "sc_images" / f"CLEVR_semantic_{number}.png",
                types.get(scene, "changed"),
            ),
            (
                f"{number}_n",
                unchanged,
                NO_CAPTIONS,
                folder / "nsc_images" / f"CLEVR_nonsemantic_{number}.png",
                "distractor",
            ),
        ):
            if before.name not in by_name:
                raise SampleError(f"{folder / file} has no caption of {before.name}, which {path} names")
            own = [text for text in by_name[before.name] if worded(text)]
            if own:
                first = Sample(name, before, after, (own[0],), kind=kind)
                samples.append(replace(first, further=tuple((text,) for text in own[1:])))
    if not samples:
        raise SampleError(f"{path}: no pair of {split} has a caption with a word; fetch the captions again")
    return samples


def clevr_captions(folder: Path, split: str) -> list[tuple[str, str]]:
    """Every caption of a split, also one without a word, with the name of its pair.

    Raises:
        SampleError: a file is missing or broken.
    """
    found = []
    for file, ending in ((CAPTIONS, ""), (NO_CAPTIONS, "_n")):
        captions = named_captions(folder / file)
        for scene in _scenes(folder / SPLIT_FILE, split):
            texts = captions.get(f"CLEVR_default_{scene:06d}.png", ())
            found += [(f"{scene:06d}{ending}", text) for text in texts]
    return found


def _scenes(path: Path, split: str) -> list[int]:
    """The numbers of a split's scenes, each once."""
    found = dict[int, None]()
    for scene in list_of(path, object_of(path, read_json(path)), split):
        digits = _digits(scene)
        if not digits or isinstance(scene, bool):
            raise SampleError(f"{path}: {split} holds {scene!r}, expected numbers of scenes; fetch it again")
        found[int(digits)] = None
    return list(found)


def _digits(name: object) -> str:
    """The number in a name such as 17, 000017, 000017.png or CLEVR_default_000017.png; empty of others."""
    number = str(name).split(".")[0].split("_")[-1]
    return number if number.isdecimal() else ""


def _types(folder: Path) -> dict[int, str]:
    path = folder / TYPE_FILE
    if not path.is_file():
        return {}
    content = object_of(path, read_json(path))
    found = {}
    for kind in content:
        for name in list_of(path, content, kind):
            number = _digits(name)
            if not number:
                raise SampleError(f"{path}: {kind} holds {name!r}, expected names such as 000000.png")
            found[int(number)] = kind
    return found
