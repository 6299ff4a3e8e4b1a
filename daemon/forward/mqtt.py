"""An MQTT broker, and Home Assistant behind it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from daemon.config.forward import MqttSettings
from daemon.config.secrets import Secrets
from daemon.config.template import rendered
from daemon.forward.discovery import (
    LONGEST_STATE,
    MOST_OBJECTS,
    OFFLINE,
    ON,
    ONLINE,
    Topics,
    device,
    discovery_topic,
    slug,
    status_topic,
)
from daemon.forward.filter import kind_of
from daemon.forward.message import Message
from daemon.forward.target import AwayError, Seen, needed
from pipeline.record import Record, RecordSentence

PORT, TLS_PORT = 1883, 8883
ANNOUNCED_S = 1.0
"""From announcing something new to its first event: until then Home Assistant does not listen to it."""

_KEEPALIVE_S = 30
_COMING = frozenset({"appeared", "moved", "more", "replaced"})
"""Changes after which an object is there."""


class MqttTarget:
    """Publishes at QoS 1, and counts as sent what the broker has acknowledged; see `Target`.

    What is sent is not retained but for the last sentence, the last picture, the devices and whether we are
    there; so Home Assistant, started anew, sees how things are, and no old event.

    Args:
        name: of the target; with `settings.topic` it names the session, so that a lost one is taken over.
        settings: which broker.
        secrets: put into its address.
        seen: cameras with the objects they were told of, whose devices are announced at every connection.

    Raises:
        AwayError: the broker cannot be reached, or refuses us.
    """

    def __init__(self, name: str, settings: MqttSettings, secrets: Secrets, seen: Seen) -> None:
        self._mqtt = needed("paho.mqtt.client")
        self._settings, self._seen = settings, seen
        self._announced: dict[str, tuple[tuple[str, ...], str | None]] = {}
        self._types: dict[str, str] = {}
        self._answered, self._refusal = threading.Event(), ""
        address = urlsplit(secrets.reveal(settings.url))
        self._host = address.hostname or ""
        self._client = self._mqtt.Client(
            self._mqtt.CallbackAPIVersion.VERSION2,
            client_id=slug(f"{settings.topic}-{name}"),
            clean_session=True,
        )
        if address.username:
            self._client.username_pw_set(unquote(address.username), unquote(address.password or ""))
        if address.scheme == "mqtts":
            self._client.tls_set_context(ssl.create_default_context(cafile=settings.ca))
        self._client.will_set(status_topic(settings.topic), OFFLINE, qos=1, retain=True)
        self._client.on_connect = self._connected
        self._client.connect_timeout = settings.timeout
        self._client.reconnect_delay_set(1, max(1, int(settings.longest_wait)))
        port = address.port or (TLS_PORT if address.scheme == "mqtts" else PORT)
        try:
            self._client.connect(self._host, port, _KEEPALIVE_S)
        except (OSError, ValueError) as error:
            raise AwayError(f"{self._host}:{port} cannot be reached: {error}") from None
        self._client.loop_start()
        if not self._answered.wait(settings.timeout) or self._refusal:
            self._client.disconnect()
            self._client.loop_stop()
            why = self._refusal or "no answer"
            raise AwayError(f"{self._host}:{port} refuses the login: {why}")

    def send(self, message: Message) -> None:
        """Publish it; see `Target.send`."""
        until = time.monotonic() + self._settings.timeout
        if not self._client.is_connected():
            raise AwayError(f"the connection to {self._host} is lost")
        record, topics = message.record, Topics(self._settings.topic, message.record.camera)
        picture = message.picture_bytes()
        if picture:
            self._types[record.camera] = message.picture_type
        if announcements := self._announce(record.camera, (s.object for s in message.sentences)):
            self._wait(announcements, until)
            time.sleep(ANNOUNCED_S)
            until += ANNOUNCED_S
        sent = [
            self._publish(topics.event, json.dumps(event, ensure_ascii=False)) for event in _events(message)
        ]
        if message.newest:
            sent += self._shown(message, topics, picture)
        self._wait(sent, until)

    def close(self) -> None:
        """Say that we go, and go."""
        if self._client.is_connected():
            try:
                said = self._client.publish(status_topic(self._settings.topic), OFFLINE, qos=1, retain=True)
                said.wait_for_publish(1.0)
            except (ValueError, RuntimeError):
                pass
        self._client.disconnect()
        self._client.loop_stop()

    def _shown(self, message: Message, topics: Topics, picture: bytes | None) -> list[Any]:
        """What stands there until something newer comes."""
        record = message.record
        text = rendered(self._settings.template, message.values)
        more = {"id": record.id, "time": record.after.time, "event": record.event, "text": text}
        more["objects"] = list(record.objects)  # type: ignore[assignment]
        sent = [
            self._publish(topics.attributes, json.dumps(more, ensure_ascii=False), retain=True),
            self._publish(topics.sentence, _short(text), retain=True),
        ]
        if picture:
            sent.append(self._publish(topics.picture, picture, retain=True))
        if time.time() - record.after.moment.timestamp() < self._settings.off_delay:
            there = {s.object for s in message.sentences if s.type in _COMING}
            sent += [self._publish(topics.of(name), ON) for name in sorted(there)]
        return sent

    def _connected(self, client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        """At the first connection, and at every later one: the broker may have forgotten all."""
        if code.is_failure:
            self._refusal = str(code)
        else:
            self._refusal = ""
            self._announced.clear()
            for camera, objects in self._seen().items():
                self._announce(camera, objects)
            client.publish(status_topic(self._settings.topic), ONLINE, qos=1, retain=True)
        self._answered.set()

    def _announce(self, camera: str, objects: Iterable[str]) -> list[Any]:
        """Tell Home Assistant of the camera, if there is anything new."""
        prefix, settings = self._settings.discovery, self._settings
        known, kind = self._announced.get(camera, ((), None))
        wanted = tuple(dict.fromkeys([*known, *(name for name in objects if name != "scene")]))[:MOST_OBJECTS]
        kind = None if settings.picture == "none" else self._types.get(camera, kind or "image/jpeg")
        if prefix is None or self._announced.get(camera) == (wanted, kind):
            return []
        payload = device(settings.topic, camera, wanted, settings.off_delay, kind)
        self._announced[camera] = wanted, kind
        return [
            self._publish(discovery_topic(prefix, settings.topic, camera), json.dumps(payload), retain=True)
        ]

    def _publish(self, topic: str, payload: str | bytes, *, retain: bool = False) -> Any:
        return self._client.publish(topic, payload, qos=1, retain=retain)

    def _wait(self, sent: list[Any], until: float) -> None:
        """Until the broker has acknowledged everything."""
        try:
            for each in sent:
                each.wait_for_publish(max(0.0, until - time.monotonic()))
        except (ValueError, RuntimeError) as error:
            raise AwayError(f"{self._host} takes nothing: {error}") from None
        if not all(each.is_published() for each in sent):
            raise AwayError(f"{self._host} has not acknowledged within {self._settings.timeout:g} s")


def _events(message: Message) -> list[dict[str, Any]]:
    """One event a sentence, and one where there is none."""
    record = message.record
    if not message.sentences:
        kind = "unknown" if record.event == "change" else record.event
        return [_event(record, kind, message.text)]
    return [_event(record, kind_of(record, s), s.text, s) for s in message.sentences]


def _event(record: Record, kind: str, text: str, sentence: RecordSentence | None = None) -> dict[str, Any]:
    event: dict[str, Any] = {
        "event_type": kind,
        "id": record.id,
        "camera": record.camera,
        "time": record.after.time,
        "text": text,
    }
    if sentence is not None:
        event |= {"object": sentence.object, "confidence": sentence.confidence, "box": sentence.box}
    return event


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_STATE else text[: LONGEST_STATE - 1] + "…"
