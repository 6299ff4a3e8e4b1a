"""An MQTT broker, with discovery for Home Assistant."""

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from daemon import __version__
from daemon.config.secrets import reveal
from daemon.config.settings import EVENT_TYPES, MqttSettings
from daemon.forward.target import TIMEOUT_S, AwayError, Message, RefusedError, Target, kind_of
from models.families import KINDS

LONGEST_STATE = 255  # characters of a state; Home Assistant takes no longer one

OBJECTS = [name for name, kind in KINDS.items() if kind.role in ("person", "vehicle", "animal")]
"""Each has a binary sensor, where the target's filter names none."""

_PORT, _TLS_PORT = 1883, 8883
_PRESENT = frozenset({"appeared", "moved", "more", "replaced"})  # changes after which an object is there
_WITHIN = frozenset({"entered", "left", "placed", "removed", "got_in", "got_out", "lost"})
"""What comes as `action` of an event appeared or disappeared, or never: an automation would wait for it."""


class MqttTarget(Target):
    """Publishes at QoS 1; sent is what the broker has acknowledged.

    Only the last sentence, the last picture, the devices and our status are retained: Home Assistant,
    restarted, shows the present state and no old event. Name and topic make the session's name, so that a
    lost one is taken over. Cameras are announced at every connection, as the broker may have lost everything;
    others with their first record. Raises `AwayError`.
    """

    def __init__(self, settings: MqttSettings, name: str, cameras: list[str]) -> None:
        self._settings, self._cameras = settings, set(cameras)
        self._shown: dict[str, tuple[datetime, str]] = {}  # of the record in the retained topics, by camera
        self._answered, self._refusal, self._losses = threading.Event(), "", 0
        address = urlsplit(reveal(settings.url))
        tls = address.scheme == "mqtts"
        self._host, port = address.hostname or "", address.port or (_TLS_PORT if tls else _PORT)
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=slug(f"{settings.topic}-{name}"), clean_session=True
        )
        if address.username:
            self._client.username_pw_set(unquote(address.username), unquote(address.password or ""))
        self._client.will_set(f"{settings.topic}/status", "offline", qos=1, retain=True)
        self._client.on_connect, self._client.on_disconnect = self._connected, self._disconnected
        try:
            if tls:
                self._client.tls_set_context(ssl.create_default_context(cafile=settings.ca))
            self._client.connect(self._host, port)
        except (OSError, ValueError) as error:
            raise AwayError(f"{self._host}:{port} cannot be reached: {error}") from None
        self._client.loop_start()
        if not self._answered.wait(TIMEOUT_S) or self._refusal:
            self.close()
            raise AwayError(f"{self._host}:{port} refuses the login: {self._refusal or 'no answer'}")

    @classmethod
    def check(cls, settings: MqttSettings) -> str:
        try:
            address = urlsplit(reveal(settings.url))
            usable = address.scheme in ("mqtt", "mqtts") and address.hostname and address.port != 0
            ssl.create_default_context(cafile=settings.ca)
        except ValueError:
            usable = False
        except OSError as error:
            return f"ca: {settings.ca} cannot be used: {error.strerror or error}"
        return "" if usable else "url: write mqtt://host or mqtts://host, with a port if need be"

    def send(self, message: Message) -> None:
        """Send it; one that completes a record is no event, and is not shown once a later one is."""
        until, losses, record = time.monotonic() + TIMEOUT_S, self._losses, message.record
        camera, shown = record.camera, (record.after.moment, record.id)
        before = self._shown.get(camera)
        if record.continues and before and before[1] != record.continues:
            return
        if not self._client.is_connected():
            raise AwayError(f"the connection to {self._host} is lost")
        base = f"{self._settings.topic}/{slug(camera)}"
        sent = [] if camera in self._cameras else self._announce(camera)
        self._cameras.add(camera)
        for event in () if record.continues else _events(message):
            sent.append(self._publish(f"{base}/event", json.dumps(event, ensure_ascii=False)))
        if before is None or shown[0] >= before[0]:  # a dead letter that is sent again changes no state
            self._shown[camera] = shown
            sent += self._show(message, base)
        try:
            for each in sent:
                each.wait_for_publish(max(0.0, until - time.monotonic()))
        except (ValueError, RuntimeError) as error:
            raise AwayError(f"{self._host} takes nothing: {error}") from None
        if not all(each.is_published() for each in sent):
            if self._losses > losses:  # a packet may be larger than it takes
                raise RefusedError(f"{self._host} closes the connection")
            raise AwayError(f"{self._host} has not acknowledged within {TIMEOUT_S:g} s")

    def close(self) -> None:
        if self._client.is_connected():
            with suppress(ValueError, RuntimeError):
                self._publish(f"{self._settings.topic}/status", "offline", retain=True).wait_for_publish(1.0)
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        """Announce all cameras, at every connection; paho calls this in its own thread."""
        self._refusal = str(code) if code.is_failure else ""
        if not self._refusal:
            for camera in sorted(self._cameras):
                self._announce(camera)
            self._publish(f"{self._settings.topic}/status", "online", retain=True)
        self._answered.set()

    def _disconnected(self, *_: Any) -> None:
        self._losses += 1

    def _announce(self, camera: str) -> list[Any]:
        settings = self._settings
        if settings.discovery is None:
            return []
        topic = f"{settings.discovery}/device/{slug(f'{settings.topic}_{camera}')}/config"
        return [self._publish(topic, json.dumps(device(settings, camera)), retain=True)]

    def _show(self, message: Message, base: str) -> list[Any]:
        """Publish the camera's state: the last sentence, its attributes and picture, and the sensors."""
        record = message.record
        text = message.text
        state = text if len(text) <= LONGEST_STATE else text[: LONGEST_STATE - 1] + "…"
        attributes = {"id": record.id, "time": record.after.time, "event": record.event, "text": text}
        attributes |= {"continues": record.continues} if record.continues else {}
        content = json.dumps(attributes | {"objects": record.objects}, ensure_ascii=False)
        retained: dict[str, str | bytes] = {"attributes": content, "sentence": state}
        with suppress(OSError):  # retention may have removed it meanwhile
            retained |= {"picture": message.picture.read_bytes()} if message.picture else {}
        sent = [self._publish(f"{base}/{name}", payload, retain=True) for name, payload in retained.items()]
        is_new = time.time() - record.after.moment.timestamp() < self._settings.off_delay
        if is_new and not record.continues:
            present = {s.object for s in message.sentences if s.type in _PRESENT}
            sent += [self._publish(f"{base}/object/{slug(name)}", "ON") for name in sorted(present)]
        return sent

    def _publish(self, topic: str, payload: str | bytes, *, retain: bool = False) -> Any:
        return self._client.publish(topic, payload, qos=1, retain=retain)


def slug(text: str) -> str:
    """The text as a part of a topic and of an id, unlike that of any other text."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def device(settings: MqttSettings, camera: str) -> dict[str, Any]:
    """The payload of device discovery (Home Assistant 2024.11 or later)."""
    topic = settings.topic
    base, device_id = f"{topic}/{slug(camera)}", slug(f"{topic}_{camera}")
    sensors: dict[str, dict[str, Any]] = {}

    def add(key: str, platform: str, name: str, **more: Any) -> None:
        sensors[key] = {"platform": platform, "name": name, "unique_id": f"{device_id}_{key}", **more}

    types = [each for each in EVENT_TYPES if each not in _WITHIN]
    add("event", "event", "Change", icon="mdi:eye", state_topic=f"{base}/event", event_types=types)
    places = {"state_topic": f"{base}/sentence", "json_attributes_topic": f"{base}/attributes"}
    add("sentence", "sensor", "Last sentence", icon="mdi:text-long", **places)
    if settings.picture != "none":
        add("picture", "image", "Last picture", image_topic=f"{base}/picture", content_type="image/jpeg")
    for name in settings.filter.object or OBJECTS:
        switch = {"payload_on": "ON", "off_delay": round(settings.off_delay), "icon": "mdi:motion-sensor"}
        place = f"{base}/object/{slug(name)}"
        add(f"object_{slug(name)}", "binary_sensor", name.capitalize(), state_topic=place, **switch)
    maker = {"manufacturer": "narrated", "sw_version": __version__}
    status = {"payload_available": "online", "payload_not_available": "offline"}
    return {
        "device": {"identifiers": [device_id], "name": camera, "model": "Narrated camera"} | maker,
        "origin": {"name": "narrated", "sw_version": __version__},
        "availability": [{"topic": f"{topic}/status", **status}],
        "qos": 1,
        "components": sensors,
    }


def _events(message: Message) -> Iterator[dict[str, Any]]:
    """One event for each sentence, or one for a record without any."""
    record = message.record
    event: dict[str, Any] = {"id": record.id, "camera": record.camera, "time": record.after.time}
    event["hash"] = record.hash  # for `narrated verify --head`
    for sentence in message.sentences:
        members = sentence.model_dump(mode="json", include={"text", "object", "confidence", "box", "action"})
        if sentence.action is None:
            del members["action"]
        kind = kind_of(record, sentence)
        if kind in ("moved", "unknown"):  # what it did says more, and is the same however far it came
            kind = sentence.action or kind
        yield event | {"event_type": kind} | members
    if not message.sentences:
        kind = "unknown" if record.event == "change" else record.event
        yield event | {"event_type": kind, "text": message.text}
