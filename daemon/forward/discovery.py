"""What Home Assistant is told of a camera: one device with its entities."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from daemon import __version__
from daemon.config.forward import EVENT_TYPES

ONLINE, OFFLINE = "online", "offline"
ON = "ON"
LONGEST_STATE = 255
"""Letters of a state; Home Assistant takes no longer one."""

MOST_OBJECTS = 50
"""Binary sensors per camera: a captioner with words of its own must not make a thousand."""


def slug(text: str) -> str:
    """The text as a part of a topic and of an id, unlike that of any other text."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    return plain if plain == text else f"{plain}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"


class Topics:
    """Where what is said of a camera stands."""

    def __init__(self, base: str, camera: str) -> None:
        camera = slug(camera)
        self.event = f"{base}/{camera}/event"
        self.sentence = f"{base}/{camera}/sentence"
        self.attributes = f"{base}/{camera}/attributes"
        self.picture = f"{base}/{camera}/picture"
        self._objects = f"{base}/{camera}/object"

    def of(self, name: str) -> str:
        """Of a kind of object."""
        return f"{self._objects}/{slug(name)}"


def status_topic(base: str) -> str:
    """Whether the forwarder is there."""
    return f"{base}/status"


def discovery_topic(prefix: str, base: str, camera: str) -> str:
    """Where Home Assistant looks for the device."""
    return f"{prefix}/device/{slug(f'{base}_{camera}')}/config"


def device(
    base: str, camera: str, objects: Iterable[str], off_delay_s: float, picture_type: str | None
) -> dict[str, Any]:
    """The payload of device discovery (Home Assistant 2024.11 or later).

    Args:
        base: what all topics begin with.
        camera: its name.
        objects: kinds that it was told of.
        off_delay_s: how long their sensors stay on.
        picture_type: MIME type of the last picture; None where none is sent.
    """
    device_id = slug(f"{base}_{camera}")
    return {
        "device": {
            "identifiers": [device_id],
            "name": camera,
            "manufacturer": "narrated",
            "model": "Narrated camera",
            "sw_version": __version__,
        },
        "origin": {"name": "narrated", "sw_version": __version__},
        "availability": [
            {
                "topic": status_topic(base),
                "payload_available": ONLINE,
                "payload_not_available": OFFLINE,
            }
        ],
        "qos": 1,
        "components": _entities(device_id, Topics(base, camera), objects, off_delay_s, picture_type),
    }


def _entities(
    device_id: str, topics: Topics, objects: Iterable[str], off_delay_s: float, picture_type: str | None
) -> dict[str, dict[str, Any]]:
    """What the device consists of, by its keys."""

    def entity(platform: str, key: str, name: str, **more: Any) -> dict[str, Any]:
        return {"platform": platform, "unique_id": f"{device_id}_{key}", "name": name, **more}

    entities = {
        "event": entity(
            "event",
            "event",
            "Change",
            state_topic=topics.event,
            event_types=list(EVENT_TYPES),
            icon="mdi:eye",
        ),
        "sentence": entity(
            "sensor",
            "sentence",
            "Last sentence",
            state_topic=topics.sentence,
            json_attributes_topic=topics.attributes,
            icon="mdi:text-long",
        ),
    }
    if picture_type:
        entities["picture"] = entity(
            "image", "picture", "Last picture", image_topic=topics.picture, content_type=picture_type
        )
    for name in list(objects)[:MOST_OBJECTS]:
        key = f"object_{slug(name)}"
        entities[key] = entity(
            "binary_sensor",
            key,
            name.capitalize(),
            state_topic=topics.of(name),
            payload_on=ON,
            off_delay=max(1, round(off_delay_s)),
            icon="mdi:motion-sensor",
        )
    return entities
