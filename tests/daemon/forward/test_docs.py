"""What the page and the sample say is so."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.config.configuration import parse_configuration
from daemon.config.settings import EVENT_TYPES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "forward.md").read_text()


def example() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return "version: 1\ncameras: {yard: {url: y.mp4}}\n" + text


def test_the_example_of_the_page_can_be_used_and_it_names_what_there_is() -> None:
    settings = parse_configuration(example()).forward
    assert {target.kind for _, target in settings.targets()} == {"mqtt", "apprise"}
    assert {key for key, _ in settings.addresses()} == {
        "forward.mqtt.home.url",
        "forward.apprise.phone.url",
        "forward.apprise.office.url",
    }
    for name in EVENT_TYPES:
        assert re.search(rf"\b{name}\b", PAGE), name
