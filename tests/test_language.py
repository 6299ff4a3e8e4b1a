"""A second language is one file: with one made of all messages nothing is told in English."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from doc_pages import ROOT
from jinja2.nodes import Call, Const, Name, TemplateData
from pseudo_language import Shown, left_in_english, messages, speaking, write_catalogue
from still import NOON, shown

from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.questions.facts import KINDS as KINDS_OF_CHANGE
from daemon.questions.facts import facts_of, time_of
from daemon.questions.question import GROUPINGS, Filters, LocalTime, Measure, Question, Span
from daemon.questions.restatement import restate
from daemon.rules.rule import Form, Rule
from models.captioner import DescribeOptions
from models.families import KINDS
from models.language.catalogue import language
from models.language.places import DIRECTIONS, PLACES, Zone
from models.language.templates import ACTIONS, CLOTHES, Statement, render
from pipeline.changes import ChangeOptions
from pipeline.limits import MinuteSummary
from pipeline.narration import events
from pipeline.narration.events import EventContext, RuleMet
from pipeline.narration.narration import EVENT_SENTENCES, ModelStamp, Narration, facts_sentence, stamp
from pipeline.record import ChainEnd, build_record
from pipeline.record_format import Action
from pipeline.report.page import environment
from pipeline.sources import Clock
from pipeline.tracking import Event

GATE = Zone("at the gate", ((0, 0), (1, 0), (1, 1), (0, 1)))
DATA = ("at the gate", "the line ", "The line ")
EXAMPLES = (  # and names of programs, and units
    *("When did a person last come to the entrance?", "since I left at 8", "10m", "narrated"),
    "a van stands at the gate longer than 10 min",
)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory) -> Path:
    return write_catalogue(tmp_path_factory.mktemp("language") / "xx.mo")


def statements() -> Iterator[Statement]:
    """Every action of every object, and every phrase of a sentence."""
    for action, name, count in product(ACTIONS, KINDS, (1, 2, 12)):
        said = Statement(action, name, count, place=PLACES[0], end=PLACES[2])
        yield said
        yield replace(said, origin="left", target="right", duration_s=7200.0)
        yield replace(said, target="near", came_from="far", came_at="10:02", other=True, several=count > 1)
        yield replace(said, origin="near")
    for colour, among in product(CLOTHES, (False, True)):
        for name in ("person", "car"):
            yield Statement("left", name, colour=colour, among=among)
        yield Statement("absent", "vehicle", 2, colour=colour, large=among)
    for action in ("opened", "closed"):
        yield Statement(action, "gate", place=PLACES[0], seen=False)
    for place in (*PLACES, *DIRECTIONS):
        yield Statement("waiting", "person", place=place, duration_s=14.0)


def narrations(kinds: tuple[str, ...]) -> Iterator[Narration]:
    """Of the events of a track, and of what is no event of an object."""
    frames = tuple(
        shown(np.full((72, 96, 3), shade, np.uint8), second) for shade, second in ((90, 0), (99, 9))
    )
    describe = DescribeOptions(zones=(GATE,))
    size = ChangeOptions(size=(72, 96), eps=3, min_samples=10, min_area=0.001)
    context = EventContext(size, describe, (), ModelStamp("grounded", "c" * 64), "d" * 64, 5.0)
    box, at = (0.4, 0.3, 0.2, 0.4), NOON.timestamp() + 5
    for kind in kinds:
        happened = Event(
            kind, "a-1", "car", 0.9, at, 0.87, at - 5, at + 4, box, box, line="the line " + DIRECTIONS[0]
        )
        yield events.narrate_event(happened, frames, context, "red")[0]
    first = stamp(frames[0])
    yield from (events.gap_narration(first, frames[1], reason, context) for reason in events._GAP_REASONS)
    yield from (events.mask_narration(frames[0], hidden, context) for hidden in (1.0, 0.3, 0.0))
    for unsure in (False, True):
        met = RuleMet("yard", Clock.FILE, NOON, (), "car", 0.9, unsure)
        yield events.rule_narration("at the gate", "at the gate", (first, first), met, context)


def test_every_sentence_is_in_the_language(catalogue):
    with speaking(catalogue):
        told = {render(each) for each in statements()}
    assert len(told) > 1000
    assert not [text for text in told if left_in_english(text)]


def test_every_narration_is_in_the_language(catalogue):
    kinds = [kind for kind in get_args(Action) if kind in ACTIONS]
    english = [*narrations(kinds)]
    with speaking(catalogue):
        told = [*narrations(kinds)]
        summary = MinuteSummary(0)
        for n, kind in enumerate(kinds):
            summary.add(NOON + timedelta(seconds=n), f"{n}", [(kind, "person", ("left", "far")[n % 2])])
        boxes = ([(0.1, 0.4, 0.05, 0.1)], [(0.1, 0.4, 0.05, 0.1), (0.8, 0.4, 0.05, 0.1)], [])
        texts = [facts_sentence(each, DescribeOptions()).text for each in boxes]
        texts += [summary.close()[0].text, *map(language.gettext, EVENT_SENTENCES.values())]
    assert not [text for text in (*texts, *(each.text for each in told)) if left_in_english(text, DATA)]
    for one, other in zip(english, told, strict=True):
        assert one.id == other.id
        assert replace(one, sentences=()) == replace(other, sentences=())
        if one.sentences[0].track:
            assert other.sentences[0].english == one.text


def test_questions_find_what_is_told_in_another_language(catalogue):
    def facts(narration: Narration) -> tuple[object, ...]:
        members = json.loads(build_record(narration, ChainEnd()).line())
        return facts_of(members, time_of(members["after"]["time"]), "x")[0][:-1]

    english = facts(next(narrations(("placed",))))
    with speaking(catalogue):
        assert facts(next(narrations(("placed",)))) == english
    assert "red" in english


def test_a_question_is_restated_in_the_language(catalogue):
    span = Span(NOON, NOON + timedelta(days=2), between=(60, 120))
    objects = (("somebody",), ("car", "dog"), ())
    questions = [
        Question(
            Filters(objects=each, kinds=kinds, colours=("dark", "red"), open=there),
            span,
            measure,
            presence=True,
        )
        for each, kinds, there in product(objects, ((), tuple(KINDS_OF_CHANGE)), (False, True))
        for measure in (
            Measure("first", 3),
            Measure("longest", most=True),
            Measure(by=GROUPINGS, durations=True),
        )
    ]
    lengths = Filters(zones=("gate",), cameras=("gate",), longer_s=75.0, shorter_s=3600.0, confidence=0.7)
    rules = [
        Rule("", "", form, lengths, lengths, seconds, 3, most)
        for form, seconds, most in product(Form, (0.0, 60.0), (None, 0, 4))
    ]
    with speaking(catalogue):
        local = LocalTime.named("UTC")
        told = [each.restate(local) for each in rules] + [restate(each, local) for each in questions]
    assert not [text for text in told if left_in_english(text, ("gate",))]


def test_the_configuration_names_the_language(catalogue, tmp_path):
    file, zone = tmp_path / "narrated.yaml", "zones: [{name: am Gehölz, polygon: [[0, 0], [1, 0], [1, 1]]}]"
    file.write_text(f"version: 1\nlanguage: {catalogue}\ncameras: {{yard: {{url: 'rtsp://h/', {zone}}}}}")
    with speaking(None):
        load_configuration(file)
        assert language.name == "xx"
        wrong = write_catalogue(tmp_path / "wrong.mo", {"for {length}": "für {laenge}"})
        for path, reason in (
            (wrong, "other fields"),
            (file, "msgfmt makes"),
            (tmp_path / "none.mo", "cannot be read"),
        ):
            refused = file.read_text().replace(str(catalogue), str(path))
            (tmp_path / "refused.yaml").write_text(refused)
            with pytest.raises(ConfigurationError, match=f"refused.yaml:2: language: .*{reason}"):
                load_configuration(tmp_path / "refused.yaml")


def test_a_message_that_no_translation_has_stays_english(tmp_path):
    path = write_catalogue(tmp_path / "some.mo", {"from the left": "von links"})
    with speaking(path):
        assert render(Statement("entered", "car", origin="left")) == "A car has come in von links."


@pytest.mark.parametrize("name", environment().list_templates())
def test_no_text_of_a_template_is_bare(name):
    source = (ROOT / "pipeline/report/templates" / name).read_text()
    source = re.sub("(?<={% block kind %})[a-z]+", "", source)  # a class of the style sheet
    tree = environment().parse(source)
    bare = " ".join(node.data for node in tree.find_all(TemplateData))
    assert not [text for text in Shown(bare).texts if left_in_english(text, EXAMPLES)]
    calls = (call for call in tree.find_all(Call) if isinstance(call.node, Name))
    told = [each for call in calls if call.node.name in ("_", "gettext", "tell") for each in call.args]
    given = [each for each in tree.find_all(Const) if each not in told and isinstance(each.value, str)]
    assert not [each.value for each in given if re.search("[A-Za-z] [a-z]|^[A-Z][a-z]", each.value)]


def test_fields_are_named():
    assert not [message for message in messages() if "{}" in message]
