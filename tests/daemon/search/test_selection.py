"""Filters and counts, against what a plain loop over the journals says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from houses import MIDNIGHT

from daemon.digest.digest import write_digest
from daemon.questions.question import DAY_S, Filters, LocalTime, Measure, Question, SearchError, Span
from daemon.search.output import caveats
from pipeline.changes import SceneEvent
from pipeline.narration.narration import RecordEvent

from .conftest import said, searching, seconds

PERSON = said("A person has come in and is now at the entrance.", "appeared", "person", 0.9)
CAR = said("The red car in the lot has driven off to the left.", "disappeared", "car", 0.6)
LORRIES = said("Two lorries have appeared in the lot.", "appeared", "truck", 0.8, count=2)
IN = said("The person in the lot has moved and is now at the entrance.", "moved", "person", 0.7)
OUT = said(
    "The person at the entrance has walked to the right and is now in the lot.", "moved", "person", 0.7
)
DOG = said("A dog has appeared on the left.", "appeared", "animal", 0.5)
CAT = said("A cat has appeared on the left.", "appeared", "animal", 0.5)
CLOTHES = said("A person in dark clothes has left.", "disappeared", "person", 0.4)
ALL = (PERSON, CAR, LORRIES, IN, OUT, DOG, CAT, CLOTHES)


@pytest.fixture
def told(house):
    for n, sentence in enumerate(ALL):
        house.tell(3600 * n, sentence, camera=("yard", "front_door")[n % 2])
    return house


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(), ALL),
        (Filters(cameras=("yard",)), ALL[::2]),
        (Filters(objects=("person",)), (PERSON, IN, OUT, CLOTHES)),
        (Filters(objects=("people", "cars")), (PERSON, CAR, IN, OUT, CLOTHES)),
        (Filters(objects=("vehicle",)), (CAR, LORRIES)),
        (Filters(objects=("dog",)), (DOG,)),
        (Filters(objects=("animal",)), (DOG, CAT)),
        (Filters(kinds=("came",)), (PERSON, LORRIES, DOG, CAT)),
        (Filters(kinds=("came",), zones=("entrance",)), (PERSON, IN)),
        (Filters(kinds=("left",), zones=("lot",)), (CAR, IN)),
        (Filters(kinds=("moved",), zones=("lot",)), (IN, OUT)),
        (Filters(zones=("lot",)), (CAR, LORRIES, IN, OUT)),
        (Filters(zones=("lo",)), ()),
        (Filters(zones=("lot", "left")), (CAR, LORRIES, IN, OUT, DOG, CAT)),
        (Filters(colours=("red",)), (CAR,)),
        (Filters(colours=("dark",)), (CLOTHES,)),
        (Filters(confidence=0.7), (PERSON, LORRIES, IN, OUT)),
        (Filters(text="walk"), (OUT,)),
        (Filters(text="dri*"), (CAR,)),
        (Filters(text='"driven off"'), (CAR,)),
        (Filters(text='"off driven"'), ()),
        (Filters(text="person lot"), (IN, OUT)),
    ],
)
def test_each_filter(told, ask, filters, found):
    assert ask(filters) == [sentence.text for sentence in found]


@pytest.mark.parametrize(
    ("span", "found"),
    [
        (Span(MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=4)), (LORRIES, IN)),
        (Span(between=(120, 240)), (LORRIES, IN)),
        (Span(between=(120, 181)), (LORRIES, IN)),
        (Span(between=(360, 60)), (PERSON, CAT, CLOTHES)),
        (Span(between=(361, 1)), (PERSON, CLOTHES)),
    ],
)
def test_each_span(told, ask, span, found):
    assert ask(span=span) == [sentence.text for sentence in found]


def test_no_text_is_taken_for_the_databases_language(told, ask):
    for text in ("NEAR(", "text:car", "a AND OR", "car -person", "^car", "'; DROP"):
        assert len(ask(Filters(text=text))) < len(ALL)
    for text in ('"', '")', "*"):
        with pytest.raises(SearchError, match="contains no word"):
            ask(Filters(text=text))


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (Filters(cameras=("nowhere",)), "front_door, yard"),
        (Filters(objects=("unicorn",)), "person"),
        (Filters(kinds=("exploded",)), "disappeared"),
        (Filters(colours=("mauve",)), "green"),
        (Filters(zones=("!",)), "entrance"),
    ],
)
def test_what_is_not_known_is_an_error_that_names_what_is(told, ask, filters, names):
    with pytest.raises(SearchError, match=names):
        ask(filters)


def test_one_sentence_must_have_everything(house, ask):
    """A record with a sure car and an unsure person is no sure person."""
    house.tell(
        0,
        said("A car has appeared.", confidence=0.9),
        said("A person has left.", "disappeared", "person", 0.2),
    )
    assert ask(Filters(objects=("person",), confidence=0.5)) == []
    assert ask(Filters(objects=("person",), kinds=("appeared",))) == []
    assert ask(Filters(objects=("person",), confidence=0.2)) == ["A car has appeared. A person has left."]


def test_limits_hold_though_segments_and_clocks_overlap(house, ask):
    rng = random.Random(3)
    moments = [rng.randrange(10_000) for _ in range(60)] + [7] * 60  # each journal in its order
    for n, moment in enumerate(moments):
        house.tell(moment, said(f"A car has appeared {moment} {n:03}."), camera=f"c{n % 3}")
    order = sorted((moment, n % 3, n) for n, moment in enumerate(moments))
    ordered = [f"A car has appeared {moment} {n:03}." for moment, _, n in order]
    assert ask(order="last") == ordered[-1:]
    for limit in (1, 5, 70, 119):
        assert ask(limit=limit) == ask(order="last", limit=limit) == ordered[-limit:]
        assert ask(order="first", limit=limit) == ordered[:limit]
    with searching(house.folder) as search:
        ends = search.answer(Question(measure=Measure(order="first and last")), 5).results
        assert [each.record.text for each in ends] == [ordered[0], ordered[-1]]


def test_a_day_on_which_the_clocks_change(house, ask):
    """London, 31 March 2024: at 1:00 UTC it is 2:00; 27 October: at 1:00 UTC it is 1:00 again."""
    for moment in ("2024-10-27T00:30", "2024-10-27T01:30", "2024-10-27T02:30"):
        house.tell(seconds(moment), said(f"A car has appeared {moment[-5:]}."))
    within = Span(between=(60, 120))
    assert ask(span=within, zone="Europe/London") == [
        "A car has appeared 00:30.",
        "A car has appeared 01:30.",
    ]
    assert ask(span=within, zone="UTC") == ["A car has appeared 01:30."]


@pytest.mark.parametrize("zone", ["Europe/London", "Asia/Kathmandu"])
def test_counts_are_those_of_a_plain_loop(house, zone):
    rng, local = random.Random(5), LocalTime.named(zone)
    records = []
    for n in range(200):
        moment = MIDNIGHT - timedelta(days=60) + timedelta(minutes=rng.randrange(300 * 24 * 60))
        sentences = rng.choices(ALL, k=rng.randrange(1, 4))
        records.append((local.of(moment), f"c{n % 2}", sentences))
        house.tell((moment - MIDNIGHT).total_seconds(), *sentences, camera=f"c{n % 2}")
    labels = {
        "minute": lambda m, _: f"{m:%Y-%m-%d %H:%M}",
        "hour": lambda m, _: f"{m:%Y-%m-%d %H:00}",
        "day": lambda m, _: f"{m:%Y-%m-%d}",
        "week": lambda m, _: f"{m:%G-W%V}",
        "month": lambda m, _: f"{m:%Y-%m}",
        "weekday": lambda m, _: f"{m:%A}",
        "hour-of-day": lambda m, _: f"{m:%H}:00",
        "object": lambda _, s: s.object,
        "kind": lambda _, s: s.type,
    }
    with searching(house.folder, zone) as search:
        several = [("day", "object"), ("kind", "object"), ("weekday", "hour-of-day")]
        for by in [(name,) for name in labels] + several:
            narrations, visits = Counter(), Counter()
            for moment, _, sentences in records:
                keys = [tuple(labels[name](moment, s) for name in by) for s in sentences]
                narrations.update(set(keys))
                for key, sentence in zip(keys, sentences, strict=True):
                    visits[key] += sentence.count * (sentence.type == "appeared")
            groups = search.selection.count(Question(measure=Measure(count=True, by=by)))
            counted = {g.labels: (g.narrations, g.visits) for g in groups}
            assert counted == {key: (narrations[key], visits[key]) for key in narrations}
            if by[0] in ("hour", "day", "month"):
                assert [g.labels for g in groups] == sorted(g.labels for g in groups)
        (whole,) = search.selection.count(Question(measure=Measure(count=True)))
        arrived = (s.count for _, _, each in records for s in each if s.type == "appeared")
        assert (whole.narrations, whole.visits) == (200, sum(arrived))
        (some,) = search.selection.count(Question(Filters(objects=("lorry",)), measure=Measure(count=True)))
        assert some.narrations == sum(any(s is LORRIES for s in each) for _, _, each in records)


def test_scene_events_and_footage_without_a_date(house, ask):
    scene = said("The light has changed.", "none", "scene", 1.0)
    house.tell(0, scene, event=SceneEvent.LIGHT)
    house.tell((datetime(1970, 1, 1, tzinfo=UTC) - MIDNIGHT).total_seconds(), PERSON)
    assert ask(Filters(kinds=("light_changed",))) == ["The light has changed."]
    assert ask() == [PERSON.text, "The light has changed."]
    with searching(house.folder) as search:
        (group,) = search.selection.count(
            Question(Filters(kinds=("light_changed",)), measure=Measure(count=True))
        )
        assert (group.narrations, group.visits) == (1, 1)


def test_footage_without_a_date_has_no_now(house):
    house.tell((datetime(1970, 1, 1, tzinfo=UTC) - MIDNIGHT).total_seconds(), PERSON, camera="clip")
    house.tell(60, PERSON)
    now = MIDNIGHT + timedelta(seconds=70)
    with searching(house.folder) as search:
        with pytest.raises(SearchError, match="the footage has no date"):
            search.selection.count(Question(Filters(cameras=("clip",), open=True), asked_at=now))
        beside = caveats(search, Question(Filters(open=True), asked_at=now))
        assert "what is there now is not known of camera clip: its footage has no date" in beside
        assert "clip" not in " ".join(each.text for each in write_digest(search, Span(), now).sentences)


def test_a_mask_hides_until_another_record_of_masks(house):
    for day, until in ((0, None), (1, None), (2, MIDNIGHT + timedelta(days=2)), (4, None)):
        mask = {"event": RecordEvent.GAP, "reason": "mask", "since": MIDNIGHT + timedelta(days=day)}
        house.tell(DAY_S * day, said("Nothing is seen of 12 % of the picture."), until=until, **mask)
    house.tell(5 * DAY_S, PERSON)
    line = "yard Wed 2024-05-01 00:00:00 to Fri 2024-05-03 00:00:00 (mask)"
    with searching(house.folder) as search:

        def gaps(first: float, last: float) -> list[str]:
            span = Span(MIDNIGHT + timedelta(days=first), MIDNIGHT + timedelta(days=last))
            return caveats(search, Question(span=span))

        assert gaps(0, 3)[0].endswith(line)
        assert gaps(1.5, 3)[0].endswith("Thu 2024-05-02 00:00:00 to Fri 2024-05-03 00:00:00 (mask)")
        assert gaps(2, 4) == []
        # It was not watched after its last record.
        assert gaps(4, 9)[0].endswith("more: yard Sun 2024-05-05 00:00:00 to Mon 2024-05-06 00:00:00 (mask)")


def test_who_only_crosses_a_line_is_not_there_ever_after(house, ask):
    for n, action in enumerate(("entered", "crossed")):
        house.tell(n, replace(PERSON, type="appeared" if not n else "moved", action=action, track="come"))
    house.tell(2, replace(IN, action="crossed", track="passed"))
    assert len(ask(Filters(kinds=("crossed",)))) == 2
    with searching(house.folder) as search:
        now = Question(Filters(open=True), asked_at=MIDNIGHT + timedelta(seconds=3))
        assert {found.record.sentences[0].track for found in search.answer(now).results} == {"come"}


def test_who_was_lost_is_not_there_and_has_not_left(house, ask):
    lost = said("The person was lost from view.", "unknown", "person", 1.0)
    house.tell(0, replace(PERSON, action="entered", track="a"))
    house.tell(90, replace(lost, action="lost", track="a"))
    house.tell(100, replace(PERSON, action="entered", track="b"))
    assert ask(Filters(kinds=("left",))) == []
    assert len(ask(Filters())) == 2
    assert len(ask(Filters(kinds=("lost",)))) == 1
    with searching(house.folder) as search:
        now = Question(Filters(open=True), asked_at=MIDNIGHT + timedelta(seconds=120))
        assert {found.record.sentences[0].track for found in search.answer(now).results} == {"b"}
        longest = Question(Filters(objects=("person",)), measure=Measure(order="longest"))
        (visit,) = search.selection.visits(longest)
        assert (visit.track, visit.end, visit.seconds, visit.there) == ("a", None, 90, False)
        stays = search.selection.stays(Filters(), Span(None, MIDNIGHT + timedelta(days=1)), DAY_S * 1_000_000)
        assert [(end - begin) / 1e6 for begin, end in stays["yard"]] == [90, pytest.approx(DAY_S, abs=DAY_S)]


def test_the_words_of_a_rule_name_no_place(house):
    house.tell(0, PERSON)
    house.tell(0, said("The bag is no longer in the same place.", "moved", "bag"))
    house.tell(1, said("More than three people in the hall.", "none", "scene"), event=RecordEvent.RULE)
    with searching(house.folder) as search:
        assert search.selection.places() == ["entrance"]
        assert (search.selection.names_place("hall"), search.selection.names_place("entrance")) == (
            False,
            True,
        )


def test_what_came_as_a_car_and_left_as_a_vehicle_is_one_car(house):
    gone = said("The vehicle has left to the left.", "disappeared", "vehicle")
    for n, track in enumerate("ab"):
        house.tell(10 * n, replace(CAR, type="appeared", action="entered", track=track))
        house.tell(10 * n + 5, replace(gone, action="left", track=track))
    house.tell(30, replace(gone, action="left", track="c"))
    with searching(house.folder) as search:
        cars = Question(Filters(objects=("car",)))
        assert [(name, visits) for name, _, visits, *_ in search.selection.unsure(cars)] == [("vehicle", 1)]
        left = Question(Filters(objects=("car",), kinds=("left",)))
        assert [visits for _, _, visits, *_ in search.selection.unsure(left)] == [3]
        by = Question(measure=Measure(count=True, by=("object",)))
        assert {g.labels[0]: g.visits for g in search.selection.count(by)} == {"car": 2, "vehicle": 1}


def test_records_of_visits_are_by_their_own_time(house, ask):
    for second, track in ((0, "long"), (10, "short")):
        house.tell(second, replace(PERSON, action="entered", track=track))
    for second, track in ((60, "short"), (90, "long")):
        gone = replace(CLOTHES, text=f"The {track} one has left.", action="left", track=track)
        house.tell(second, replace(gone, duration_s=50.0))
    asked = Filters(kinds=("left",), longer_s=1.0)
    assert ask(asked) == ["The short one has left.", "The long one has left."]
    assert ask(asked, order="all", limit=1) == ["The long one has left."]
