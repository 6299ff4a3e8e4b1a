"""A real broker, and what Home Assistant receives from it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from forwarding_here import Broker, forwarding, message, sent
from waiting import until

from daemon.config.settings import EVENT_TYPES, MqttSettings
from daemon.forward import forwarder, mqtt
from daemon.forward.mqtt import LONGEST_STATE, OBJECTS, MqttTarget, device, slug
from daemon.forward.target import Message
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.narration.narration import FrameStamp
from pipeline.record import Evidence
from pipeline.tracking.tracks import DEPARTURES, ENTRANCES

PERSON = Sentence(
    "A person has come in at the entrance.", "appeared", "person", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8
)
STOPPED = Sentence("A van has stopped.", "unknown", "van", None, 0.4, 0.6, action="stopped")
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
    return MqttTarget(given, "home", ["yard"])


REQUIRED = {  # https://www.home-assistant.io/integrations/event.mqtt/ and those of the others
    "event": {"state_topic", "event_types"},
    "sensor": {"state_topic"},
    "binary_sensor": {"state_topic"},
    "image": {"image_topic"},
}


def check_payload(payload: dict[str, Any]) -> None:
    """By the page of device discovery."""
    assert payload["device"].keys() >= {"identifiers", "name"}
    assert payload["origin"]["name"]
    assert all(each["topic"] for each in payload["availability"])
    entities = payload["components"].values()
    assert len({entity["unique_id"] for entity in entities}) == len(entities)
    for key, entity in payload["components"].items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", key)
        assert entity.keys() >= REQUIRED[entity["platform"]]
        for name in entity.keys() & {"state_topic", "image_topic", "json_attributes_topic"}:
            assert not set(entity[name]) & set("+#")


@pytest.mark.parametrize("camera", ["yard", "front.door-2_x", "7"])
def test_discovery_has_the_keys_that_home_assistant_documents(camera):
    def components(**given: Any) -> dict[str, Any]:
        payload = device(MqttSettings.model_validate({"url": "mqtt://h", **given}), camera)
        check_payload(payload)
        return dict(payload["components"])

    every = components()
    assert {f"object_{name}" for name in OBJECTS} | {"event", "sentence", "picture"} == every.keys()
    some = components(picture="none", filter={"object": ["person", "traffic light", "Ähre/+#"]})
    assert "picture" not in some
    assert sum(each["platform"] == "binary_sensor" for each in some.values()) == 3


def test_similar_names_get_different_slugs():
    names = ["a.b", "a_b", "a b", "a-b", "A.b"]
    assert len({slug(name) for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", slug(name)) for name in [*names, "Ähre"])


def test_home_assistant_receives_all_of_a_narration(broker, listen, configure, camera, tmp_path):
    picture = EvidenceStore(tmp_path / "state" / "evidence", fsync=False).put(b"JPEG", "jpg")
    listener, told = listen(broker.port), (PERSON, GONE, STOPPED, replace(STOPPED, type="moved"))
    with forwarding(configure(home(broker))):
        until(lambda: listener.on("narrated/status") == [b"online"])
        (first,) = until(lambda: listener.on("homeassistant/device/narrated_yard/config"))
        check_payload(json.loads(first))  # a configured camera is announced before its first record
        (published,) = camera().narrate(evidence=Evidence(overlay=picture), **now(sentences=told))
        until(lambda: listener.on("narrated/yard/object/person"))
        until(lambda: listener.on("narrated/yard/picture"))
        until(lambda: len(listener.on("narrated/yard/event")) == 4)
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
    assert [event["event_type"] for event in events] == ["appeared", "disappeared", "stopped", "stopped"]
    record = json.loads((tmp_path / "state/journal/yard.jsonl").read_bytes())
    assert {(event["id"], event["hash"]) for event in events} == {(published, record["hash"])}
    assert set(EVENT_TYPES) - set(entities["event"]["event_types"]) == {*ENTRANCES, *DEPARTURES, "lost"} - {
        "appeared",
        "disappeared",
    }
    assert listener.on(entities["sentence"]["state_topic"]) == [" ".join(each.text for each in told).encode()]
    assert json.loads(listener.on(entities["sentence"]["json_attributes_topic"])[0])["id"] == published


def test_a_later_subscriber_gets_the_state_and_no_old_event(broker, listen):
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


def test_what_completes_the_last_sentence_is_shown_in_its_place_and_is_no_event(
    broker, listen, configure, camera
):
    listener, parked = listen(broker.port), replace(STOPPED, text="The van has parked.", type="moved")
    yard = camera()
    with forwarding(configure(home(broker))) as running:
        (stopped,) = yard.narrate(**now(sentences=(STOPPED,)))
        (completing,) = yard.narrate(**now(sentences=(parked,), continues=stopped))
        (gone,) = yard.narrate(**now(sentences=(GONE,)))
        yard.narrate(**now(sentences=(parked,), continues=completing))  # another sentence is shown by now
        until(lambda: sent(running, "home") == 4)
    until(lambda: len(listener.on("narrated/yard/attributes")) >= 3)
    shown = [json.loads(each) for each in listener.on("narrated/yard/attributes")]
    assert [(each["id"], each.get("continues")) for each in shown] == [
        (stopped, None),
        (completing, stopped),
        (gone, None),
    ]
    assert listener.on("narrated/yard/sentence")[1] == b"The van has parked."
    assert [json.loads(each)["id"] for each in listener.on("narrated/yard/event")] == [stopped, gone]
    assert listener.on("narrated/yard/object/van") == []


def test_old_long_and_empty_records(broker, listen):
    """Old ones are dead letters tried again, and what waited while the broker was away."""
    listener, target = listen(broker.port), opened(broker, discovery=None)
    long = replace(GONE, text=GONE.text * 40)
    target.send(message(**now(sentences=(long,))))
    target.send(message(sentences=(PERSON,)))  # of 2024
    until(lambda: len(listener.on("narrated/yard/event")) == 2)
    (state,) = listener.on("narrated/yard/sentence")
    assert state.decode() == (GONE.text * 40)[: LONGEST_STATE - 1] + "…"
    assert json.loads(listener.on("narrated/yard/attributes")[0])["text"] == GONE.text * 40
    assert listener.on("narrated/yard/object/person") == [], "an old record moves no state"
    gap = message().record.model_copy(
        update={"event": "gap", "text": "Nothing was observed.", "sentences": ()}
    )
    target.send(Message(gap, ()))
    event = until(lambda: listener.on("narrated/yard/event")[2:])[0]
    assert json.loads(event)["event_type"] == "gap"
    assert not [topic for topic, _, _ in listener.received if topic.startswith("homeassistant")]
    target.close()


def test_a_broker_that_is_killed_and_forgets_everything(broker, listen, configure, camera, monkeypatch):
    monkeypatch.setattr(forwarder, "LONGEST_BACKOFF_S", 3.0)  # the subscriber is back first
    monkeypatch.setattr(forwarder, "FIRST_BACKOFF_S", 3.0)
    yard = camera()
    with forwarding(configure(home(broker))) as running:
        sender = running["home"]
        yard.narrate(**now())
        until(lambda: sender._queue._sent)
        broker.stop()
        waiting = yard.narrate(3, **now())
        until(lambda: sender.backoff.reason)
        broker.start()
        listener = listen(broker.port)
        until(lambda: len(listener.on("narrated/yard/event")) == 3)
        (config, *_) = listener.on("homeassistant/device/narrated_yard/config")
        assert "object_car" in json.loads(config)["components"]
    assert [json.loads(each)["id"] for each in listener.on("narrated/yard/event")] == waiting


def test_a_picture_larger_than_the_broker_takes_is_left_out(
    broker, listen, configure, camera, tmp_path, monkeypatch
):
    monkeypatch.setattr(mqtt, "TIMEOUT_S", 1.0)
    broker.stop()
    broker.settings.write_text(broker.settings.read_text() + "max_packet_size 20000\n")
    broker.start()
    picture = EvidenceStore(tmp_path / "state" / "evidence", fsync=False).put(bytes(30_000), "jpg")
    listener = listen(broker.port)
    with forwarding(configure(home(broker))):
        large, small = camera().narrate(2, **now(sentences=(PERSON,)), evidence=Evidence(overlay=picture))
        until(lambda: small.encode() in b"".join(listener.on("narrated/yard/attributes")))
    events = [json.loads(each)["id"] for each in listener.on("narrated/yard/event")]
    assert dict.fromkeys(events) == {large: None, small: None}
    assert listener.on("narrated/yard/picture") == []


def test_a_killed_forwarder_is_shown_as_offline(broker, listen, configure, forked):
    listener, process = listen(broker.port), forked("forward", "-c", configure(home(broker)))
    until(lambda: listener.on("narrated/status") == [b"online"])
    process.kill()
    until(lambda: listener.on("narrated/status") == [b"online", b"offline"])


def test_a_corrected_password_is_read_again(mosquitto, tmp_path, listen, configure, camera):
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
            until(lambda: "refuses the login: Not authorized" in running["home"].backoff.reason)
            assert "wr0ng" not in running["home"].backoff.reason
            secret.write_text("me:p/w:rd\n")
            until(lambda: running["home"]._queue._sent)
        listener = listen(closed.port, "me", "p/w:rd")
        until(lambda: listener.on("narrated/yard/sentence"))
    finally:
        closed.stop()
