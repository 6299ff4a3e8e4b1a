"""Making one pair: draws, varies and disturbs until what the mask pipeline shows can be told."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from pipeline.changes import image_changes
from train.compose import drafts
from train.compose.differences import as_comparison, explained, seen_objects, shown
from train.compose.drafts import Draft, SplitFootage
from train.compose.grammar import word
from train.compose.pasted import pasted
from train.compose.variations import disturbed, vary
from train.footage.recipe import ComposeOptions
from train.footage.scenes import Scene
from train.samples import SampleChange, SampleError

_ATTEMPTS = 360
_PATIENCE = 12
"""Attempts with one camera."""
_MEDIAN_NEEDS_S = 5.0
"""The median of a shorter clip holds ghosts of what moved slowly."""
_MAX_SENTENCES = 6


@dataclass(frozen=True, slots=True, eq=False)
class ComposedPair:
    """A finished pair.

    Attributes:
        draft: its images and objects.
        changes: what is told, the largest first, with their sentences.
        sentences: the caption.
    """

    draft: Draft
    changes: tuple[SampleChange, ...]
    sentences: tuple[str, ...]


def finished(options: ComposeOptions, footage: SplitFootage, rng: np.random.Generator) -> ComposedPair:
    """Draw kinds and scenes until a pair comes out that can be told.

    Raises:
        SampleError: none does.
    """
    shares = asdict(options.recipe.mix)
    weights = np.array(list(shares.values()))
    kind = str(rng.choice(list(shares), p=weights / weights.sum()))
    camera = footage.draw_camera(rng)
    hard = rng.random() < options.recipe.hard_nuisances
    for attempt in range(_ATTEMPTS):
        if attempt and attempt % _PATIENCE == 0:  # not at once, or busy cameras would give all pairs
            camera = footage.draw_camera(rng)
            if attempt % (6 * _PATIENCE) == 0:
                kind = str(rng.choice(list(shares), p=weights / weights.sum()))
        draft = _draft(kind, footage.draw(camera, rng), footage, rng)
        usable = _usable(draft, options, rng)
        if usable is None or (
            kind == "nuisance" and hard and not usable.clusters and attempt < _PATIENCE - 1
        ):
            continue
        changes, sentences = word(usable.changes, options.variety, rng)
        return ComposedPair(usable.draft, changes, sentences)
    raise SampleError(
        f"no pair could be composed of {', '.join(footage.names)} in {_ATTEMPTS} attempts; add footage "
        "in which something moves, or lower the shares of the kinds that it cannot give"
    )


def _draft(kind: str, scene: Scene, footage: SplitFootage, rng: np.random.Generator) -> Draft | None:
    if kind == "nuisance":
        return drafts.nuisance(scene, rng)
    if kind == "median":
        long_enough = scene.times_s[-1] - scene.times_s[0] >= _MEDIAN_NEEDS_S
        return drafts.against_median(scene, rng) if long_enough else None
    if kind == "erased":
        return drafts.erased(scene, rng)
    if kind == "pasted":
        return pasted(scene, footage, rng)
    if kind == "occasion":
        several = [n for n in footage.names if len(footage.cameras[n]) > 1]
        if several:
            camera = several[int(rng.integers(len(several)))]
            return drafts.occasions(footage.draw(camera, rng), footage.cameras[camera], rng)
    found = [drafts.real(scene, rng) for _ in range(max(footage.recipe.rare_tries, 1))]
    return max(
        (d for d in found if d is not None),
        key=lambda d: max((footage.rarity.get(c.object, 1.0) for c in d.changes), default=0.0),
        default=None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class UsableDraft:
    """A draft that can be used, with what of it the mask pipeline shows.

    Attributes:
        draft: the images, and the objects as the mask shows them.
        changes: the changes to be told.
        clusters: number of clusters.
    """

    draft: Draft
    changes: tuple[SampleChange, ...]
    clusters: int


def _usable(draft: Draft | None, options: ComposeOptions, rng: np.random.Generator) -> UsableDraft | None:
    """Vary a draft and keep what the mask pipeline shows; None where the pair is better not used."""
    varied = vary(draft, rng) if draft is not None else None
    if varied is None:
        return None
    usable = shown_changes(varied, options)
    if usable is None or not varied.changes or rng.random() >= options.recipe.disturbed:
        return usable
    known = replace(varied, guessed=False)  # what is mixed in now is known to be no change
    again = shown_changes(disturbed(known, rng), options)
    return again if again is not None else usable


def shown_changes(draft: Draft, options: ComposeOptions) -> UsableDraft | None:
    """The changes and objects of a draft that the mask pipeline shows; None if it is better not used.

    A pair is not used where its known changes cannot be seen, where what can be seen is not known (for
    labels of the teacher), and where there is more than a caption can hold.
    """
    clusters = image_changes(draft.before, draft.after, options.changes)[1]
    changes = shown(draft.changes, clusters)
    if draft.changes and len(changes) == 0:
        return None
    if draft.guessed:
        known = [b for c in draft.changes for b in (c.box_before, c.box_after) if b is not None]
        if explained(clusters, known) < options.recipe.min_explained or (clusters and not changes):
            return None
        if sum(c.count for c in changes) > 2 * _MAX_SENTENCES:
            return None
    compared = []
    for change in sorted(changes, key=lambda c: -c.area)[:_MAX_SENTENCES]:
        others = [box for label, box in draft.standing if label == change.object]
        compared.append(as_comparison(change, others))
    objects, named = seen_objects(draft.objects, compared, clusters)
    return UsableDraft(replace(draft, objects=objects), named, len(clusters))
