"""The grounded captioner as a whole: swapped frames, zones, words against facts, thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.captioner import DescribeOptions, PairBatch, Sentence
from models.encoder import Encoder
from models.grounded import Grounded
from models.phrases import Facts, agrees, plain_sentence
from models.places import Zone, place
from models.vocabulary import Vocabulary
from models.wording import read

MakePairs = Callable[..., PairBatch]
MakeGrounded = Callable[..., Grounded]
EVERYTHING = DescribeOptions(min_confidence=0.0, max_sentences=1000)
MIRRORED = {"appeared": "disappeared", "disappeared": "appeared", "more": "fewer", "fewer": "more"}
GAP_S = 8.0
PLACES = [
    [(20, 30, 40, 50), (120, 140, 30, 30), (150, 20, 60, 40)],
    [(60, 60, 50, 30)],
    [],
    [(10, 150, 40, 40), (20, 140, 60, 60)],
]


@pytest.fixture
def make_grounded(vocabulary: Vocabulary, encoder: Encoder) -> MakeGrounded:
    """An untrained captioner that sees things everywhere."""

    def make(seed: int = 0, **arguments: Any) -> Grounded:
        torch.manual_seed(seed)
        sizes = {"width": 32, "embedded": 16, "blocks": 1}
        made = Grounded(vocabulary, encoder, **sizes, **arguments)
        torch.nn.init.constant_(made.perception.answer.bias[:1], 0.0)
        torch.nn.init.normal_(made.perception.answer.weight, std=0.4)  # else it calls everything the same
        return made.eval()

    return make


@pytest.fixture
def nothing_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster is told for its size alone."""
    monkeypatch.setattr("models.grounded.LARGE", 2.0)


def random_tracks(pairs: int, random: torch.Generator, points: int = 60) -> Tensor:
    """Some points from beginning to end, some lost, some found, some padding."""
    tracks = torch.rand(pairs, points, 6, generator=random)
    kind = torch.randint(4, (pairs, points), generator=random)
    cut = tracks[..., 2] * GAP_S
    tracks[..., 2] = torch.where(kind == 1, cut, 0.0)
    tracks[..., 5] = torch.where(kind == 2, cut, GAP_S)
    tracks[kind == 3] = torch.nan
    tracks[:, 0, 2], tracks[:, 0, 5] = 0.0, GAP_S  # a background that is seen all the time
    return tracks


def swapped(pairs: PairBatch) -> PairBatch:
    """The same pairs read backwards: what was before is after."""
    tracks = pairs.tracks
    if tracks is not None:
        tracks = tracks[..., [3, 4, 5, 0, 1, 2]].clone()
        tracks[..., [2, 5]] = GAP_S - tracks[..., [2, 5]]
    return replace(
        pairs,
        maps=pairs.maps[::-1] if pairs.maps else None,
        levels=tuple(level.flip(1) for level in pairs.levels) if pairs.levels else None,
        crops=None if pairs.crops is None else pairs.crops.flip(1),
        tracks=tracks,
    )


def told(sentence: Sentence, *, backwards: bool = False) -> tuple[Any, ...]:
    """What a sentence tells; with `backwards`, what it must tell of the swapped pair."""
    before, after, moment_s = sentence.before, sentence.after, sentence.moment_s
    kind = sentence.type
    if backwards:
        before, after, kind = after, before, MIRRORED.get(kind, kind)
        moment_s = None if moment_s is None else GAP_S - moment_s
    where = [_near(side) for side in (before, after)]
    return kind, sentence.object, sentence.count, *where, *_near((sentence.confidence,)), *_near((moment_s,))


def _near(numbers: Sequence[float | None] | None) -> list[Any]:
    """Numbers that equal others up to rounding."""
    return [None if v is None else pytest.approx(v, abs=1e-3) for v in numbers or ()]


def same(some: Sequence[Sentence], others: Sequence[Sentence], *, backwards: bool = False) -> bool:
    """Whether both tell the same, in any order."""
    left = [told(s) for s in others]
    for wanted in (told(s, backwards=backwards) for s in some):
        if wanted not in left:
            return False
        left.remove(wanted)
    return not left


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_swapping_the_frames_turns_everything_that_is_told(
    make_grounded: MakeGrounded, make_pairs: MakePairs, seed: int, between: bool, group: bool
) -> None:
    """Appeared and disappeared change places, moved and replaced stay, with the boxes exchanged."""
    captioner = make_grounded(seed, group=group)
    pairs = make_pairs(PLACES, seed=seed)
    if between:
        pairs = replace(pairs, tracks=random_tracks(4, torch.Generator().manual_seed(seed)))
    straight, backwards = (captioner.describe(each, EVERYTHING) for each in (pairs, swapped(pairs)))
    assert straight[0]
    for one, other in zip(straight, backwards, strict=True):
        assert same(one, other, backwards=True)


def test_all_kinds_of_changes_are_met_by_the_property_test(
    make_grounded: MakeGrounded, make_pairs: MakePairs
) -> None:
    kinds, objects, moments, counts = set(), set(), 0, set()
    for seed in range(12):
        pairs = replace(
            make_pairs(PLACES, seed=seed), tracks=random_tracks(4, torch.Generator().manual_seed(seed))
        )
        for s in (s for each in make_grounded(seed).describe(pairs, EVERYTHING) for s in each):
            kinds.add(s.type)
            objects.add(s.object)
            counts.add(s.count)
            moments += s.moment_s is not None
    assert {"appeared", "disappeared", "moved"} <= kinds
    assert len(objects) > 3
    assert moments > 0
    assert len(counts) > 1


def test_sentences_say_what_their_members_say(make_grounded: MakeGrounded, make_pairs: MakePairs) -> None:
    """Whatever the decoder babbles: words that disagree with the facts are replaced by plain ones."""
    captioner, seen = make_grounded(3), 0
    for told_of_pair in captioner.describe(make_pairs(PLACES), EVERYTHING):
        for s in told_of_pair:
            facts = Facts(s.type, s.object, s.count, place(s.before or s.after or s.box or (0, 0, 1, 1)))
            assert agrees(s.text, facts)
            assert s.text == plain_sentence(facts), "an untrained decoder is never right"
            assert s.box in (s.before, s.after)
            seen += 1
    assert seen > 5


def test_words_that_agree_with_the_facts_are_kept(
    make_grounded: MakeGrounded, make_pairs: MakePairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    captioner, pairs = make_grounded(3), make_pairs(PLACES)
    [first, *_] = next(each for each in captioner.describe(pairs, EVERYTHING) if each)
    for words, kept in (("now there is something else", False), (_otherwise(first), True)):
        monkeypatch.setattr("models.grounded.surface", lambda _words, said=words: said)
        [again, *_] = next(each for each in captioner.describe(pairs, EVERYTHING) if each)
        assert (again.text == words) is kept
        assert same([again], [first])


def _otherwise(sentence: Sentence) -> str:
    """The same facts in other words."""
    where = place(sentence.before or sentence.after or (0, 0, 1, 1))
    facts = Facts(sentence.type, sentence.object, sentence.count, where)
    words = plain_sentence(facts).removesuffix(f" {where}.").removesuffix(".")
    if where not in words:
        words = f"{where[0].upper()}{where[1:]} {words[0].lower()}{words[1:]}"
    words = f"{words}."
    assert agrees(words, facts)
    return words


def test_a_zone_is_said_in_place_of_the_place(make_grounded: MakeGrounded, make_pairs: MakePairs) -> None:
    lot = Zone("in the lot", ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0)))
    plain, zoned = (
        make_grounded(3).describe(make_pairs(PLACES), replace(EVERYTHING, zones=zones))
        for zones in ((), (lot,))
    )
    inside = 0
    for without, within in zip(plain, zoned, strict=True):
        for a, b in zip(without, within, strict=True):
            assert same([a], [b])
            where = b.before or b.after
            assert where is not None
            stands = lot.holds((where[0] + where[2] / 2, where[1] + where[3]))
            assert (
                b.text.endswith("in the lot.") or (" in the lot " in b.text) if stands else a.text == b.text
            )
            assert (read(b.text).type, read(b.text).object) == (read(a.text).type, read(a.text).object)
            inside += stands
    assert inside > 0


def test_near_and_far_are_said_where_the_camera_looks_ahead(
    make_grounded: MakeGrounded, make_pairs: MakePairs
) -> None:
    flat, deep = (
        make_grounded(3).describe(make_pairs(PLACES), replace(EVERYTHING, depth=depth))
        for depth in (False, True)
    )
    depth_of, seen = {"top": "far", "bottom": "near"}, set()
    for without, within in zip(flat, deep, strict=True):
        for a, b in zip(without, within, strict=True):
            assert same([a], [b])
            places = read(b.text).places
            assert places == {depth_of.get(word, word) for word in read(a.text).places}
            seen |= places
    assert {"near", "far"} <= seen


def test_more_is_told_with_a_lower_threshold(make_grounded: MakeGrounded, make_pairs: MakePairs) -> None:
    captioner, pairs = make_grounded(3), make_pairs(PLACES)
    every = [s.confidence for each in captioner.describe(pairs, EVERYTHING) for s in each]
    counts = []
    for least in (0.0, 0.2, 0.4, 0.6, 1.1):
        each = captioner.describe(pairs, replace(EVERYTHING, min_confidence=least))
        assert all(s.confidence >= least for told_of_pair in each for s in told_of_pair)
        counts.append(sum(map(len, each)))
        assert counts[-1] == sum(c >= least for c in every)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0
    captioner.fit_confidence(1.0, 0.0, 0.4)
    own = captioner.describe(pairs, replace(EVERYTHING, min_confidence=None))
    assert sum(map(len, own)) == counts[2]
    given = captioner.describe(pairs, DescribeOptions(sentences=2, min_confidence=1.1))
    assert [len(each) for each in given] == [2, 2, 0, 2], "a given number is told whatever the threshold"


@pytest.mark.usefixtures("nothing_is_large")
def test_confidence_is_calibrated(make_grounded: MakeGrounded, make_pairs: MakePairs) -> None:
    captioner, pairs = make_grounded(3), make_pairs(PLACES)
    raw = [s.confidence for each in captioner.describe(pairs, EVERYTHING) for s in each]
    captioner.fit_confidence(0.5, -1.0)
    fitted = [s.confidence for each in captioner.describe(pairs, EVERYTHING) for s in each]
    expected = (0.5 * torch.tensor(raw).logit() - 1).sigmoid()
    assert sorted(fitted) == pytest.approx(sorted(expected.tolist()), abs=1e-4)


@pytest.mark.usefixtures("nothing_is_large")
def test_what_is_switched_off_is_not_done(make_grounded: MakeGrounded, make_pairs: MakePairs) -> None:
    pairs = make_pairs(PLACES)

    def sentences(**arguments: bool) -> list[Sentence]:
        return [s for each in make_grounded(3, **arguments).describe(pairs, EVERYTHING) for s in each]

    assert "moved" in {s.type for s in sentences()}
    assert {s.type for s in sentences(link=False)} <= {"appeared", "disappeared"}
    assert max(s.count for s in sentences(group=False)) == 1
    clusters = int(pairs.valid.sum())
    assert len(sentences(split=False, link=False, group=False)) <= 2 * clusters < len(sentences(link=False))


def test_a_large_difference_without_an_object_is_something(
    make_grounded: MakeGrounded, make_pairs: MakePairs
) -> None:
    captioner = make_grounded(3)
    torch.nn.init.constant_(captioner.perception.answer.bias[:1], -30.0)  # blind
    pairs = make_pairs([[(20, 30, 90, 90), (180, 180, 10, 10)]])
    [[something]] = captioner.describe(pairs)
    assert something.object == "object"
    assert something.text.lower().startswith("something ")
    assert something.box == pytest.approx((20 / 224, 30 / 224, 90 / 224, 90 / 224))
    assert something.confidence == captioner.min_confidence
    [[backwards]] = captioner.describe(swapped(pairs))
    assert same([something], [backwards], backwards=True)


def test_an_encoder_without_maps_of_crops_is_refused(vocabulary: Vocabulary, encoder: Encoder) -> None:
    class Flat(Encoder):
        name, channels = "flat", 8

        def features(self, images: Tensor) -> Tensor:
            return images[:, :1, :14, :14]

    with pytest.raises(ValueError, match="encoder flat gives no maps of crops"):
        Grounded(vocabulary, Flat())


def test_known_facts_train_the_linker_through_the_whole_loss(
    make_grounded: MakeGrounded, make_pairs: MakePairs
) -> None:
    """Where a thing is matched with a true object on either side, the links' loss reaches the linker."""
    captioner = make_grounded(1)
    pairs = make_pairs([[(40, 40, 120, 120)]], sides=[[0]], labels=[["car"]])
    [each] = captioner.describe(pairs, EVERYTHING)
    boxes = [box for s in each for box in (s.before, s.after) if box]
    assert pairs.truth is not None
    both = torch.tensor([*boxes, *boxes]).unsqueeze(0)
    n = both.shape[1] // 2
    truth = replace(
        pairs.truth,
        side=torch.tensor([[0] * n + [1] * n]),
        label=torch.zeros(1, 2 * n, dtype=torch.int64),
        box=both,
        sure=torch.ones(1, 2 * n, dtype=torch.bool),
        identity=torch.arange(n).repeat(2).unsqueeze(0),
    )
    sentences = captioner.vocabulary.batch([["the blue person is gone"]])
    captioner.loss(replace(pairs, truth=truth), sentences).backward()
    grads = [p.grad for p in captioner.linker.parameters()]
    assert all(g is not None and torch.isfinite(g).all() and g.any() for g in grads)
