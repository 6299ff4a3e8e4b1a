"""Which sentences a filter passes."""

import re
from datetime import UTC
from typing import Any, get_args
from zoneinfo import ZoneInfo

import narrations
import pytest
from doc_pages import page

from daemon.config.configuration import ConfigurationError, parse_configuration
from daemon.config.settings import EVENT_TYPES, FilterSettings
from daemon.forward.target import Filter
from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import EVENT_SENTENCES, Narration
from pipeline.record import ChainEnd, Record, build_record
from pipeline.record_format import Action

CAR = Sentence("A car has appeared in the lot.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8)
PERSON = Sentence("A person has left at the entrance.", "disappeared", "person", None, 0.4, 0.55)
LIGHT = Sentence(EVENT_SENTENCES[SceneEvent.LIGHT], "none", "scene", None, 1.0, 1.0)


def record(*sentences: Sentence, second: float = 0, **changed: Any) -> Record:
    """At so many seconds after midnight, UTC."""
    narration: Narration = narrations.narration(second, sentences=sentences or (CAR, PERSON), **changed)
    return build_record(narration, ChainEnd())


def passed(asked: dict[str, Any], given: Record | None = None) -> list[str] | None:
    selected = Filter(FilterSettings.model_validate(asked), UTC).select(given or record())
    return None if selected is None else [s.object for s in selected]


@pytest.mark.parametrize(
    ("asked", "objects"),
    [
        ({}, ["car", "person"]),
        ({"camera": "yard"}, ["car", "person"]),
        ({"camera": ["lane", "ya*"]}, ["car", "person"]),
        ({"camera": "lane"}, None),
        ({"object": "person"}, ["person"]),
        ({"kind": "appeared"}, ["car"]),
        ({"kind": ["moved", "disappeared"]}, ["person"]),
        ({"kind": "light_changed"}, None),
        ({"confidence": 0.6}, ["car"]),
        ({"zone": "at the entrance"}, ["person"]),
        ({"zone": "In the lot"}, ["car"]),
        ({"zone": "in the lo"}, None),
        ({"zone": "at the entrance", "object": "car"}, None),  # one sentence must have all
        ({"hours": "23:00-01:00"}, ["car", "person"]),
        ({"hours": "00:00-00:01"}, ["car", "person"]),
        ({"hours": "00:01-23:59"}, None),
    ],
)
def test_a_filter_passes_sentences(asked, objects):
    assert passed(asked) == objects


def test_hours_are_those_of_the_place():
    asked = FilterSettings(hours="02:00-03:00")  # midnight in UTC is two in summer's Berlin
    assert Filter(asked, ZoneInfo("Europe/Berlin")).select(record()) is not None
    assert Filter(asked, ZoneInfo("Asia/Tokyo")).select(record()) is None


def test_events_of_the_scene():
    light = record(LIGHT, event=SceneEvent.LIGHT)
    assert passed({"kind": ["light_changed"]}, light) == ["scene"]
    assert passed({}, light) == ["scene"]
    assert passed({"object": "person"}, light) is None
    assert passed({"kind": "appeared"}, light) is None
    gap = record().model_copy(update={"event": "gap", "sentences": ()})
    assert passed({}, gap) == passed({"kind": "gap"}, gap) == []
    deleted = gap.model_copy(update={"event": "deletion"})
    assert passed({}, deleted) is None
    assert passed({"kind": "deletion"}, deleted) == []
    assert passed({"object": "car"}, gap) is passed({"kind": "moved"}, gap) is None


def test_every_kind_that_a_record_can_hold_can_be_asked_for():
    types = Record.model_json_schema()["$defs"]["RecordSentence"]["properties"]["type"]["enum"]
    events = Record.model_json_schema()["properties"]["event"]["enum"]
    assert set(EVENT_TYPES) == {*types, *events, *get_args(Action)} - {
        "none",
        "change",
        "cap_reached",
        "cap_ended",
    }
    for kind in [*EVENT_TYPES, "cap_reached"]:
        assert FilterSettings.model_validate({"kind": kind}).kind == (kind,)
    stopped = record().model_copy(
        update={"sentences": (record().sentences[0].model_copy(update={"action": "stopped"}),)}
    )
    assert passed({"kind": "stopped"}, stopped) == passed({"kind": "appeared"}, stopped) == ["car"]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("apprise: {a: {url: x, message: json}}", "write 'text' or 'record'"),
        ("mqtt: {a: {url: x, filter: {kind: flown}}}", "'appeared'"),
        ("mqtt: {a: {url: x, filter: {hours: 22-6}}}", '"22:00-06:00", in quotes'),
        ("mqtt: {a: {url: x, topic: 'a/#'}}", "without +, # and $"),
        ("mqtt: {a: {url: x}}, apprise: {a: {url: x}}", "two targets are called 'a'"),
    ],
)
def test_a_mistake_is_named(targets, expected):
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(f"version: 1\ncameras: {{a: {{url: x}}}}\nforward: {{{targets}}}\n", "n.yaml")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("n.yaml:3: forward")
    assert expected in caught.value.problems[0]
    assert "hunter2" not in caught.value.problems[0]


def test_the_example_of_the_page_can_be_used_and_it_names_what_there_is():
    text = page("forward.md")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    settings = parse_configuration("version: 1\ncameras: {yard: {url: y.mp4}}\n" + example).forward
    keys = {key for key, _ in settings.addresses()}
    assert keys == {f"forward.{name}.url" for name in ("mqtt.home", "apprise.phone", "apprise.office")}
    for name in EVENT_TYPES:
        assert re.search(rf"\b{name}\b", text), name
