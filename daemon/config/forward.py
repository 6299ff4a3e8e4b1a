"""The section `forward` of the configuration file: targets, what each is sent, and in which words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.values import Section
from pipeline.record import Action, Share

KINDS = ("mqtt", "apprise")
"""Kinds of targets, which are keys of the section."""

_Type = Literal["appeared", "disappeared", "moved", "more", "fewer", "replaced", "unknown"]
_Scene = Literal["light_changed", "view_changed", "obstructed", "summary", "rule", "gap", "deletion"]
_Retired = Literal["cap_reached", "cap_ended"]
Kind = Literal[_Type, _Scene, Action, _Retired]
"""Values of `filter.kind`: types and actions of sentences, events of records."""

EVENT_TYPES: tuple[str, ...] = (*get_args(_Type), *get_args(_Scene))
"""Types of the events sent to Home Assistant."""

PictureChoice = Literal["overlay", "after", "before", "none"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_TOPIC = re.compile(r"[^+#\x00$/][^+#\x00]*")


def _check_hours(value: Any) -> Any:
    match = _HOURS.fullmatch(str(value))
    if match is None:
        raise ValueError('write from and to of the day as "22:00-06:00", in quotes')
    return str(value)


def _check_template(text: str) -> str:
    from daemon.config.template import check_template  # noqa: PLC0415 - jinja2, only where a file has one

    check_template(text)
    return text


def _check_topic(text: str) -> str:
    if _TOPIC.fullmatch(text) is None or text.endswith("/"):
        raise ValueError("write an MQTT topic without +, # and $, and without / at its ends")
    return text


def _parse_words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_parse_words), Field(strict=False)]
Template = Annotated[str, AfterValidator(_check_template)]
Topic = Annotated[str, AfterValidator(_check_topic)]


class FilterSettings(Section):
    """Which narrations a target is sent; what is empty asks for nothing."""

    camera: Words = ()  # names, or patterns such as yard-*
    zone: Words = ()
    object: Words = ()
    kind: Annotated[tuple[Kind, ...], BeforeValidator(_parse_words), Field(strict=False)] = ()
    confidence: Share = 0.0
    hours: Annotated[str, BeforeValidator(_check_hours)] | None = None  # by `timezone`: "22:00-06:00"


class TargetSettings(Section):
    """Keys of every kind of target."""

    kind: ClassVar[str]

    filter: FilterSettings = FilterSettings()
    template: Template = "{{ text }}"
    picture: PictureChoice = "overlay"


class MqttSettings(TargetSettings):
    """A broker, with discovery for Home Assistant."""

    kind = "mqtt"
    off_delay: ClassVar[float] = 60.0  # seconds that a binary sensor stays on

    url: str
    topic: Topic = "narrated"
    discovery: Topic | None = "homeassistant"  # prefix under which Home Assistant looks for devices
    ca: Annotated[Path | None, Field(strict=False)] = None  # of the broker's certificate; the system's


class AppriseSettings(TargetSettings):
    """Any of the services that Apprise knows, or a web hook."""

    kind = "apprise"

    url: str
    title: Template = "{{ camera }}"


class ForwardSettings(Section):
    """Targets of `narrated forward`."""

    mqtt: dict[str, MqttSettings] = Field(default_factory=dict)
    apprise: dict[str, AppriseSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names: set[str] = set()
        for name, _ in self.targets():
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"the target name {name!r}: write letters, digits, - and _, at most 32")
            if name in names:
                raise ValueError(f"two targets are called {name!r}: their queues need names of their own")
            names.add(name)
        return self

    def targets(self) -> Iterator[tuple[str, TargetSettings]]:
        """All targets with their names."""
        for kind in KINDS:
            yield from getattr(self, kind).items()


def secret_texts(settings: ForwardSettings) -> Iterator[tuple[str, str]]:
    """Addresses, which may name secrets, with their keys in the file."""
    for kind in KINDS:
        for name, target in getattr(settings, kind).items():
            yield f"forward.{kind}.{name}.url", target.url
