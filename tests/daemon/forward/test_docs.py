"""What the page and the sample say is so."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.config.configuration import parse_configuration
from daemon.config.settings import EVENT_TYPES, KINDS, secret_texts
from daemon.config.template import NAMES
from daemon.forward.target import Filter

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


def test_the_page_names_what_there_is() -> None:
    for name in [*NAMES, *EVENT_TYPES, *KINDS]:
        assert re.search(rf"\b{name}\b", PAGE), name
