"""A real broker, and what Home Assistant receives from it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import narrations
import pytest
from forwarding_here import Broker, Camera, Listener, forwarding
from waiting import until

from daemon.config.secrets import Secrets
from daemon.config.settings import EVENT_TYPES, MqttSettings
from daemon.forward import sender as sender_module
from daemon.forward.mqtt import LONGEST_STATE, OBJECTS, MqttTarget, device, slug
from daemon.forward.target import Message
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.narration.narration import FrameStamp
from pipeline.record import ChainEnd, Evidence, build_record

Configure = Callable[..., Path]
Listen = Callable[..., Listener]

PERSON = Sentence(
    "A person has come in at the entrance.", "appeared", "person", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8
)
GONE = Sentence("A car has left.", "disappeared", "car", None, 0.4, 0.6)


def home(broker: Broker, more: str = "") -> str:
    url = f"mqtt://127.0.0.1:{broker.port}"
    return f"  mqtt:\n    home: {{url: '{url}'{more and ', ' + more}}}\n"


def now(**changed: Any) -> dict[str, Any]:
    """A narration of this moment."""
    moment = datetime.now(UTC)
    return {"before": FrameStamp(moment, 0, "a" * 64), "after": FrameStamp(moment, 1, "b" * 64), **changed}


def opened(broker: Broker, **settings: Any) -> Any:
    given = MqttSettings(url=f"mqtt://127.0.0.1:{broker.port}", **settings)
    return MqttTarget(given, Secrets({}), "home", ["yard"])


def message(**changed: Any) -> Message:
    record = build_record(narrations.narration(**changed), ChainEnd())
    return Message(record, record.sentences)


# https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload, and the pages of the integrations
# event.mqtt, sensor.mqtt, binary_sensor.mqtt, image.mqtt: keys that are required, and those allowed besides.
AVAILABILITY = ({"topic"}, {"payload_available", "payload_not_available", "value_template"})
DEVICE = (
    {"identifiers"},  # or connections
    {
        *("connections", "configuration_url", "hw_version", "manufacturer", "model", "model_id", "name"),
        *("serial_number", "suggested_area", "sw_version", "via_device"),
    },
)
ORIGIN = ({"name"}, {"sw_version", "support_url"})
PAYLOAD = (
    {"device", "origin", "components"},
    {
        "availability",
        "availability_mode",
        "availability_topic",
        "qos",
        "encoding",
        "state_topic",
        "command_topic",
    },
)
ENTITY = {
    *("availability", "availability_mode", "device", "enabled_by_default", "encoding", "entity_category"),
    *("entity_picture", "icon", "json_attributes_template", "json_attributes_topic", "name", "object_id"),
    *("default_entity_id", "qos", "value_template"),
}
COMPONENTS = {
    "event": ({"platform", "unique_id", "state_topic", "event_types"}, {"device_class", *ENTITY}),
    "sensor": (
        {"platform", "unique_id", "state_topic"},
        {
            *("device_class", "expire_after", "force_update", "last_reset_value_template", "options"),
            *("state_class", "suggested_display_precision", "unit_of_measurement", *ENTITY),
        },
    ),
    "binary_sensor": (
        {"platform", "unique_id", "state_topic"},
        {"device_class", "expire_after", "force_update", "off_delay", "payload_off", "payload_on", *ENTITY},
    ),
    "image": (
        {"platform", "unique_id", "image_topic"},  # or url_topic
        {"content_type", "image_encoding", "url_template", *ENTITY},
    ),
}


def check(values: dict[str, Any], keys: tuple[set[str], set[str]]) -> None:
    required, allowed = keys
    assert required <= values.keys()
    assert values.keys() <= required | allowed


def check_payload(payload: dict[str, Any]) -> None:
    check(payload, PAYLOAD)
    check(payload["device"], DEVICE)
    check(payload["origin"], ORIGIN)
    for each in payload["availability"]:
        check(each, AVAILABILITY)
    ids = [entity["unique_id"] for entity in payload["components"].values()]
    assert len(ids) == len(set(ids))
    for key, entity in payload["components"].items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", key)
        check(entity, COMPONENTS[entity["platform"]])
        for name in entity.keys() & {"state_topic", "image_topic", "json_attributes_topic"}:
            assert not set(entity[name]) & set("+#")
    assert payload["qos"] in {0, 1, 2}


@pytest.mark.parametrize("camera", ["yard", "front.door-2_x", "7"])
def test_discovery_has_the_keys_that_home_assistant_documents(camera: str) -> None:
    def components(**given: Any) -> dict[str, Any]:
        payload = device(MqttSettings.model_validate({"url": "mqtt://h", **given}), camera)
        check_payload(payload)
        return dict(payload["components"])

    every = components()
    assert {f"object_{name}" for name in OBJECTS} | {"event", "sentence", "picture"} == every.keys()
    some = components(picture="none", filter={"object": ["person", "traffic light", "Ähre/+#"]})
    assert "picture" not in some
    assert sum(each["platform"] == "binary_sensor" for each in some.values()) == 3


def test_similar_names_get_different_slugs() -> None:
    names = ["a.b", "a_b", "a b", "a-b", "A.b"]
    assert len({slug(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", slug(name)) for name in [*names, "Ähre"])


def test_home_assistant_receives_all_of_a_narration(
    broker: Broker, listen: Listen, configure: Configure, camera: Callable[..., Camera], tmp_path: Path
) -> None:
    picture = EvidenceStore(tmp_path / "state" / "evidence", fsync=False).put(b"JPEG", "jpg")
    listener = listen(broker.port)
    with forwarding(configure(home(broker))):
        until(lambda: listener.on("narrated/status") == [b"online"])
        (first,) = until(lambda: listener.on("homeassistant/device/narrated_yard/config"))
        check_payload(json.loads(first))  # a configured camera is announced before its first record
        (published,) = camera().narrate(evidence=Evidence(overlay=picture), **now(sentences=(PERSON, GONE)))
        until(lambda: listener.on("narrated/yard/object/person"))
        until(lambda: listener.on("narrated/yard/picture"))
        until(lambda: len(listener.on("narrated/yard/event")) == 2)
    until(lambda: listener.on("narrated/status") == [b"online", b"offline"])
    payload = json.loads(listener.on("homeassistant/device/narrated_yard/config")[-1])
    check_payload(payload)
    entities = payload["components"]
    assert entities["object_person"]["state_topic"] == "narrated/yard/object/person"
    assert entities["picture"]["content_type"] == "image/jpeg"
    assert listener.on(entities["picture"]["image_topic"]) == [b"JPEG"]
    assert listener.on(entities["object_person"]["state_topic"]) == [
        entities["object_person"]["payload_on"].encode()
    ]
    assert listener.on(entities["object_car"]["state_topic"]) == []  # it has left
    events = [json.loads(each) for each in listener.on(entities["event"]["state_topic"])]
    assert [event["event_type"] for event in events] == ["appeared", "disappeared"]
    assert {event["id"] for event in events} == {published}
    assert set(entities["event"]["event_types"]) == set(EVENT_TYPES)
    assert listener.on(entities["sentence"]["state_topic"]) == [f"{PERSON.text} {GONE.text}".encode()]
    assert json.loads(listener.on(entities["sentence"]["json_attributes_topic"])[0])["id"] == published


def test_a_later_subscriber_gets_the_state_and_no_old_event(broker: Broker, listen: Listen) -> None:
    target = opened(broker)
    target.send(message(**now(sentences=(PERSON,))))
    late = listen(broker.port)
    until(lambda: late.on("narrated/yard/sentence") and late.on("narrated/status"))
    target.send(message(**now(sentences=(GONE,))))
    until(lambda: len(late.on("narrated/yard/sentence")) == 2)
    retained = {topic for topic, _, was in late.received if was}
    config = "homeassistant/device/narrated_yard/config"
    assert retained == {"narrated/yard/sentence", "narrated/yard/attributes", "narrated/status", config}
    assert [json.loads(each)["event_type"] for each in late.on("narrated/yard/event")] == ["disappeared"]
    objects = json.loads(late.on(config)[0])["components"]
    assert {"object_dog", "object_person"} <= objects.keys()
    target.close()


def test_an_old_record_moves_no_state(broker: Broker, listen: Listen) -> None:
    """A dead letter that is tried again, and what waited while the broker was away."""
    listener, target = listen(broker.port), opened(broker)
    target.send(message(**now(sentences=(GONE,))))
    target.send(message(sentences=(PERSON,)))  # of 2024
    until(lambda: len(listener.on("narrated/yard/event")) == 2)
    assert listener.on("narrated/yard/sentence") == [GONE.text.encode()]
    assert listener.on("narrated/yard/object/person") == []
    target.close()


def test_a_state_is_never_too_long(broker: Broker, listen: Listen) -> None:
    listener, target = listen(broker.port), opened(broker)
    long = message().sentences[0].model_copy(update={"text": "A car has appeared. " * 40})
    target.send(Message(message().record, (long,)))
    (state,) = until(lambda: listener.on("narrated/yard/sentence"))
    assert len(state.decode()) == LONGEST_STATE
    assert len(json.loads(listener.on("narrated/yard/attributes")[0])["text"]) > LONGEST_STATE
    target.close()


def test_a_record_without_sentences_is_an_event(broker: Broker, listen: Listen) -> None:
    listener, target = listen(broker.port), opened(broker, discovery=None)
    gap = message().record.model_copy(
        update={"event": "gap", "text": "Nothing was observed.", "sentences": ()}
    )
    target.send(Message(gap, ()))
    (event,) = until(lambda: listener.on("narrated/yard/event"))
    assert json.loads(event)["event_type"] == "gap"
    assert not [topic for topic, _, _ in listener.received if topic.startswith("homeassistant")]
    target.close()


def test_a_broker_that_is_killed_and_forgets_everything(
    broker: Broker,
    listen: Listen,
    configure: Configure,
    camera: Callable[..., Camera],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_module, "LONGEST_BACKOFF_S", 3.0)  # the subscriber is back first
    monkeypatch.setattr(sender_module, "FIRST_BACKOFF_S", 3.0)
    yard = camera()
    with forwarding(configure(home(broker))) as running:
        sender = running.senders["home"]
        yard.narrate(**now())
        until(lambda: sender._queue._sent)
        broker.stop()
        waiting = yard.narrate(3, **now())
        until(lambda: sender.failing)
        broker.start()
        listener = listen(broker.port)
        until(lambda: len(listener.on("narrated/yard/event")) == 3)
        (config, *_) = listener.on("homeassistant/device/narrated_yard/config")
        assert "object_car" in json.loads(config)["components"]
    assert [json.loads(each)["id"] for each in listener.on("narrated/yard/event")] == waiting


def test_a_killed_forwarder_is_shown_as_offline(
    broker: Broker, listen: Listen, configure: Configure, start_forward: Callable[..., subprocess.Popen[str]]
) -> None:
    listener, process = listen(broker.port), start_forward(configure(home(broker)))
    until(lambda: listener.on("narrated/status") == [b"online"])
    process.kill()
    until(lambda: listener.on("narrated/status") == [b"online", b"offline"])


def test_a_corrected_password_is_read_again(
    mosquitto: str, tmp_path: Path, listen: Listen, configure: Configure, camera: Callable[..., Camera]
) -> None:
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed (apt install mosquitto)")
    file, secret = tmp_path / "passwords", tmp_path / "secret"
    subprocess.run([tool, "-c", "-b", file, "me", "p/w:rd"], check=True, capture_output=True)
    secret.write_text("me:wr0ng\n")
    closed = Broker(mosquitto, tmp_path, file)
    try:
        url = f"mqtt://${{file:{secret}}}@127.0.0.1:{closed.port}"
        path = configure(f"  mqtt:\n    home: {{url: '{url}'}}\n")
        with forwarding(path) as running:
            camera().narrate()
            until(lambda: "refuses the login: Not authorized" in running.senders["home"].failing)
            assert "wr0ng" not in running.senders["home"].failing
            secret.write_text("me:p/w:rd\n")
            until(lambda: running.senders["home"]._queue._sent)
        listener = listen(closed.port, "me", "p/w:rd")
        until(lambda: listener.on("narrated/yard/sentence"))
    finally:
        closed.stop()
