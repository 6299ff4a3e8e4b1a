"""An MQTT broker, with discovery for Home Assistant."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from daemon import __version__
from daemon.config.forward import EVENT_TYPES, MqttSettings
from daemon.config.secrets import Secrets
from daemon.config.template import render
from daemon.forward.message import Message, kind_of
from daemon.forward.target import AwayError, Objects, Target
from pipeline.record import RecordSentence

ANNOUNCED_S = 1.0
"""From announcing something new to its first event: until then Home Assistant does not listen to it."""

LONGEST_STATE = 255
"""Characters of a state; Home Assistant takes no longer one."""

MOST_OBJECTS = 50
"""Binary sensors per camera: a captioner with words of its own must not make a thousand."""

_PORT, _TLS_PORT = 1883, 8883
_KEEPALIVE_S = 30
_LONGEST_RECONNECT_S = 60
_PRESENT = frozenset({"appeared", "moved", "more", "replaced"})
"""Changes after which an object is there."""


class MqttTarget(Target):
    """Publishes at QoS 1; sent is what the broker has acknowledged.

    Retained are only the last sentence, the last picture, the devices and whether we are there: Home
    Assistant, restarted, sees how things are, and no old event. A record that completes an earlier one
    changes these and is no event.

    Args:
        settings: which broker.
        secrets: put into its address.
        name: of the target; with `settings.topic` it names the session, so that a lost one is taken over.
        objects: kinds of objects by camera, announced at every connection: the broker may have forgotten all.

    Raises:
        AwayError: the broker cannot be reached, or refuses us.
    """

    updates = True
    schemes = ("mqtt", "mqtts")

    def __init__(self, settings: MqttSettings, secrets: Secrets, name: str, objects: Objects) -> None:
        self._settings, self._objects = settings, objects
        self._announced: dict[str, tuple[tuple[str, ...], str | None]] = {}
        self._shown: dict[str, str] = {}  # id of the record in the retained topics, by camera
        self._answered, self._refusal = threading.Event(), ""
        address = urlsplit(secrets.reveal(settings.url))
        tls = address.scheme == "mqtts"
        self._host, port = address.hostname or "", address.port or (_TLS_PORT if tls else _PORT)
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=slug(f"{settings.topic}-{name}"), clean_session=True
        )
        if address.username:
            self._client.username_pw_set(unquote(address.username), unquote(address.password or ""))
        if tls:
            self._client.tls_set_context(ssl.create_default_context(cafile=settings.ca))
        self._client.will_set(f"{settings.topic}/status", "offline", qos=1, retain=True)
        self._client.on_connect = self._connected
        self._client.connect_timeout = settings.timeout
        self._client.reconnect_delay_set(1, _LONGEST_RECONNECT_S)
        try:
            self._client.connect(self._host, port, _KEEPALIVE_S)
        except (OSError, ValueError) as error:
            raise AwayError(f"{self._host}:{port} cannot be reached: {error}") from None
        self._client.loop_start()
        if not self._answered.wait(settings.timeout) or self._refusal:
            self._client.disconnect()
            self._client.loop_stop()
            raise AwayError(f"{self._host}:{port} refuses the login: {self._refusal or 'no answer'}")

    def send(self, message: Message) -> None:
        """Publish it; see `Target.send`."""
        until = time.monotonic() + self._settings.timeout
        if not self._client.is_connected():
            raise AwayError(f"the connection to {self._host} is lost")
        record, settings = message.record, self._settings
        if record.continues and self._shown.get(record.camera) != record.continues:
            return  # something newer is shown
        base = f"{settings.topic}/{slug(record.camera)}"
        picture = message.picture_bytes()
        kind = message.picture_type if picture else None
        if announcement := self._announce(record.camera, (s.object for s in message.sentences), kind):
            self._wait([announcement], until)
            time.sleep(ANNOUNCED_S)
            until += ANNOUNCED_S
        sent = []
        if not record.continues:
            sentences: Iterable[RecordSentence | None] = message.sentences or [None]
            events = (_event(message, sentence) for sentence in sentences)
            sent += [self._publish(f"{base}/event", json.dumps(e, ensure_ascii=False)) for e in events]
        if message.newest:
            self._shown[record.camera] = record.id
            text = render(settings.template, message.values)
            state = text if len(text) <= LONGEST_STATE else text[: LONGEST_STATE - 1] + "…"
            more = {"id": record.id, "time": record.after.time, "event": record.event, "text": text}
            attributes = json.dumps(more | {"objects": record.objects}, ensure_ascii=False)
            sent.append(self._publish(f"{base}/attributes", attributes, retain=True))
            sent.append(self._publish(f"{base}/sentence", state, retain=True))
            if picture:
                sent.append(self._publish(f"{base}/picture", picture, retain=True))
            if time.time() - record.after.moment.timestamp() < settings.off_delay:
                present = {s.object for s in message.sentences if s.type in _PRESENT}
                sent += [self._publish(f"{base}/object/{slug(name)}", "ON") for name in sorted(present)]
        self._wait(sent, until)

    def close(self) -> None:
        """Say that we go, and go."""
        if self._client.is_connected():
            with suppress(ValueError, RuntimeError):
                self._publish(f"{self._settings.topic}/status", "offline", retain=True).wait_for_publish(1.0)
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        """Announce all; in paho's thread, at the first connection and at every later one."""
        self._refusal = str(code) if code.is_failure else ""
        if not self._refusal:
            self._announced.clear()
            for camera, objects in self._objects().items():
                self._announce(camera, objects)
            self._publish(f"{self._settings.topic}/status", "online", retain=True)
        self._answered.set()

    def _announce(self, camera: str, objects: Iterable[str], kind: str | None = None) -> Any:
        """Describe the camera to Home Assistant, if there is anything new; the message, or None."""
        settings = self._settings
        known, known_kind = self._announced.get(camera, ((), "image/jpeg"))
        wanted = tuple(dict.fromkeys([*known, *(name for name in objects if name != "scene")]))[:MOST_OBJECTS]
        kind = None if settings.picture == "none" else kind or known_kind
        if settings.discovery is None or self._announced.get(camera) == (wanted, kind):
            return None
        self._announced[camera] = wanted, kind
        payload = json.dumps(device(settings.topic, camera, wanted, settings.off_delay, kind))
        place = f"{settings.discovery}/device/{slug(f'{settings.topic}_{camera}')}/config"
        return self._publish(place, payload, retain=True)

    def _publish(self, topic: str, payload: str | bytes, *, retain: bool = False) -> Any:
        return self._client.publish(topic, payload, qos=1, retain=retain)

    def _wait(self, sent: list[Any], until: float) -> None:
        """Wait until the broker has acknowledged everything."""
        try:
            for each in sent:
                each.wait_for_publish(max(0.0, until - time.monotonic()))
        except (ValueError, RuntimeError) as error:
            raise AwayError(f"{self._host} takes nothing: {error}") from None
        if not all(each.is_published() for each in sent):
            raise AwayError(f"{self._host} has not acknowledged within {self._settings.timeout:g} s")


def slug(text: str) -> str:
    """The text as a part of a topic and of an id, unlike that of any other text."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def device(
    topic: str, camera: str, objects: Iterable[str], off_delay_s: float, picture_type: str | None
) -> dict[str, Any]:
    """The payload of device discovery (Home Assistant 2024.11 or later).

    Args:
        topic: what all topics begin with.
        camera: its name.
        objects: kinds of objects, each a binary sensor.
        off_delay_s: how long the sensors stay on.
        picture_type: MIME type of the last picture; None where none is sent.
    """
    base, device_id = f"{topic}/{slug(camera)}", slug(f"{topic}_{camera}")
    sensors: dict[str, dict[str, Any]] = {
        "event": {
            "platform": "event",
            "name": "Change",
            "icon": "mdi:eye",
            "state_topic": f"{base}/event",
            "event_types": EVENT_TYPES,
        },
        "sentence": {
            "platform": "sensor",
            "name": "Last sentence",
            "icon": "mdi:text-long",
            "state_topic": f"{base}/sentence",
            "json_attributes_topic": f"{base}/attributes",
        },
    }
    if picture_type:
        sensors["picture"] = {
            "platform": "image",
            "name": "Last picture",
            "image_topic": f"{base}/picture",
            "content_type": picture_type,
        }
    for name in objects:
        sensors[f"object_{slug(name)}"] = {
            "platform": "binary_sensor",
            "name": name.capitalize(),
            "icon": "mdi:motion-sensor",
            "state_topic": f"{base}/object/{slug(name)}",
            "payload_on": "ON",
            "off_delay": max(1, round(off_delay_s)),
        }
    status = {"payload_available": "online", "payload_not_available": "offline"}
    return {
        "device": {
            "identifiers": [device_id],
            "name": camera,
            "manufacturer": "narrated",
            "model": "Narrated camera",
            "sw_version": __version__,
        },
        "origin": {"name": "narrated", "sw_version": __version__},
        "availability": [{"topic": f"{topic}/status", **status}],
        "qos": 1,
        "components": {key: {**each, "unique_id": f"{device_id}_{key}"} for key, each in sensors.items()},
    }


def _event(message: Message, sentence: RecordSentence | None) -> dict[str, Any]:
    record = message.record
    event: dict[str, Any] = {"id": record.id, "camera": record.camera, "time": record.after.time}
    if sentence is None:
        kind = "unknown" if record.event == "change" else record.event
        return event | {"event_type": kind, "text": message.values["text"]}
    members = sentence.model_dump(mode="json", include={"text", "object", "confidence", "box", "action"})
    if sentence.action is None:
        del members["action"]
    return event | {"event_type": kind_of(record, sentence)} | members
