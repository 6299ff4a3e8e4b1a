"""Scenes in which the caption is needed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from models.papers.wording import read
from train.papers.batches import read_image
from train.papers.generated.folder import GenerateOptions, generate
from train.papers.generated.scenery import scenery
from train.papers.generated.stage import SIBLINGS, NoRoomError, Stage, crowd
from train.samples import Sample, load_samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("crowded") / "set"
    generate(GenerateOptions(60, seed=4, cameras=20, crowded=True), out)
    return out


@pytest.fixture(scope="module")
def families(folder: Path) -> list[tuple[Sample, Sample]]:
    """Siblings, in which something changed."""
    samples = load_samples(folder, "train")
    found = zip(samples[::SIBLINGS], samples[1::SIBLINGS], strict=False)
    return [(one, two) for one, two in found if one.kind == "changed"]


def test_siblings_differ_in_what_changed(families: list[tuple[Sample, Sample]]) -> None:
    assert len(families) > 10
    for one, two in families:
        assert one.before.read_bytes() == two.before.read_bytes()
        assert one.after.read_bytes() != two.after.read_bytes()
        [first], [second] = one.changes, two.changes
        assert (first.type, first.object, first.count) == (second.type, second.object, 1)
        differs = np.abs(read_image(one.after).astype(int) - read_image(two.after)).max(axis=2) > 30
        assert differs.any()
        for change, other in ((first, second), (second, first)):
            box, others = (c.box_after or c.box_before for c in (change, other))
            assert box != others


def test_only_the_end_of_a_caption_tells_siblings_apart(families: list[tuple[Sample, Sample]]) -> None:
    shared = 0
    for one, two in families:
        said = [{s for told in each.annotations for s in told} for each in (one, two)]
        assert not said[0] & said[1]
        for sentence in said[0] | said[1]:
            assert read(sentence).type == one.changes[0].type
        shared += any(a.split()[:3] == b.split()[:3] for a in said[0] for b in said[1])
    assert shared > 0.5 * len(families)


def test_things_alike_stand_where_the_words_do_not_fit() -> None:
    seen = defaultdict(int)
    for number in range(12):
        view = scenery(7, number, 224)
        try:
            staged = [crowd(view, np.random.default_rng(number), k) for k in range(SIBLINGS)]
        except NoRoomError:
            continue
        for each in staged:
            _check(each, seen)
        quiet = crowd(view, np.random.default_rng(number), None)
        assert (quiet.changes, quiet.places) == ((), ())
        assert set(staged[0].still) - set(staged[1].still) <= set(quiet.still)
    assert len(seen) > 3


def _check(staged: Stage, seen: dict[str, int]) -> None:
    [change] = staged.changes
    thing = change.named
    alike = [t for t in staged.still if (t.label, t.colour) == (thing.label, thing.colour)]
    assert alike, "a caption's first half fits another thing"
    for place in staged.places:
        seen[place] += 1
        edge = {"on the left": min, "on the right": max}.get(place)
        if edge is not None:
            assert edge([thing, *alike], key=lambda t: t.left + t.width / 2) == thing
