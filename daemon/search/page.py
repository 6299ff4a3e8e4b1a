"""What was found as one page of HTML: self-contained, without scripts, with the pictures that are there."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from daemon.search.found import FoundRecord
from daemon.search.local_time import LocalTime
from daemon.search.output import local_words
from pipeline.report.words import EVENTS, sureness

_MEDIA = {".jpg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One narration on the page.

    Attributes:
        found: what is told.
        time: local.
        pictures: ``(name, address)``: the overlay where there is one, else what there is of before and after.
    """

    found: FoundRecord
    time: str
    pictures: tuple[tuple[str, str], ...]

    @property
    def event(self) -> str | None:
        """The scene event in words, None where objects changed."""
        return EVENTS.get(self.found.record.event)


def page(
    title: str,
    facts: Sequence[tuple[str, str]],
    faults: Sequence[str],
    found: Iterable[FoundRecord],
    local: LocalTime,
) -> Iterator[str]:
    """The page in parts, so that its pictures are never all in memory.

    Args:
        title: what was asked.
        facts: ``(name, value)`` for its head.
        faults: what does not verify.
        found: the narrations.
        local: in which times are told.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sureness"] = sureness
    style = resources.files("pipeline.report").joinpath("style.css").read_text(encoding="utf-8")
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    entries = (
        PageEntry(each, local_words(each.record.after.moment, local), _pictures(each)) for each in found
    )
    return environment.from_string(source).generate(
        title=title,
        facts=facts,
        faults=faults,
        entries=entries,
        style=Markup(style),  # noqa: S704 - our own file
    )


def _pictures(found: FoundRecord) -> tuple[tuple[str, str], ...]:
    sides = ("overlay",) if "overlay" in found.pictures else ("before", "after")
    named = {"overlay": "before and after"}
    shown = (
        (named.get(side, side), _address(found.pictures[side])) for side in sides if side in found.pictures
    )
    return tuple((name, address) for name, address in shown if address)


def _address(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError:
        return ""  # retention came between
    return f"data:{_MEDIA[path.suffix]};base64,{base64.b64encode(content).decode()}"
