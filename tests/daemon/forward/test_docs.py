"""What the page and the sample say is so."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from daemon.config.configuration import parse_configuration
from daemon.config.forward import EVENT_TYPES, KINDS, secret_texts, without_secrets
from daemon.config.template import NAMES
from daemon.forward.message import Filter

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "forward.md").read_text()


def example() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return "version: 1\ncameras: {yard: {url: y.mp4}}\n" + text


def test_the_example_of_the_page_can_be_used() -> None:
    settings = parse_configuration(example()).forward
    assert {kind for kind in KINDS if getattr(settings, kind)} == set(KINDS)
    for _, target in settings.targets():
        Filter(target.filter)
    assert {key for key, _ in secret_texts(settings)} == {
        "forward.mqtt.home.url",
        "forward.apprise.phone.url",
        "forward.apprise.office.url",
    }


def test_what_is_shown_of_it_reads_back_and_hides_addresses() -> None:
    settings = parse_configuration(example()).forward
    shown = without_secrets(settings.model_dump(mode="json"))
    urls = {name: target["url"] for kind in KINDS for name, target in shown[kind].items() if "url" in target}
    assert urls == {
        "home": "mqtt://***",
        "office": "https://***",
        "phone": "${cred:phone}",
    }
    again = parse_configuration(
        "version: 1\ncameras: {a: {url: x}}\n" + yaml.safe_dump({"forward": shown})
    ).forward
    assert again.apprise["phone"] == settings.apprise["phone"]


def test_the_page_names_what_there_is() -> None:
    for name in [*NAMES, *EVENT_TYPES, *KINDS]:
        assert re.search(rf"\b{name}\b", PAGE), name
