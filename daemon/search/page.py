"""What was found as one page of HTML: self-contained, without scripts, with the pictures that are there."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from daemon.questions.local_time import LocalTime
from daemon.search.found import FoundRecord
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
        clip: address of a recording of it; mostly empty.
    """

    found: FoundRecord
    time: str
    pictures: tuple[tuple[str, str], ...]
    clip: str = ""

    @property
    def event(self) -> str | None:
        """The scene event in words, None where objects changed."""
        return EVENTS.get(self.found.record.event)


def embedded(path: Path) -> str:
    """The address of a picture that is in the page itself; empty where its file is gone."""
    try:
        content = path.read_bytes()
    except OSError:
        return ""  # retention came between
    return f"data:{_MEDIA[path.suffix]};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a page has its pictures and recordings from.

    Attributes:
        picture: the address of a picture's file; empty where it is gone.
        clip: the address of a recording of a narration; empty where there is none.
        sources: from where its Content-Security-Policy lets them come.
    """

    picture: Callable[[Path], str] = embedded
    clip: Callable[[FoundRecord], str] = lambda _found: ""
    sources: str = "data:"


_WITHIN = Addresses()


def page(
    title: str,
    facts: Sequence[tuple[str, str]],
    faults: Sequence[str],
    found: Iterable[FoundRecord],
    local: LocalTime,
    *,
    addresses: Addresses = _WITHIN,
) -> Iterator[str]:
    """The page in parts, so that its pictures are never all in memory.

    Args:
        title: what was asked.
        facts: ``(name, value)`` for its head.
        faults: what does not verify.
        found: the narrations.
        local: in which times are told.
        addresses: of pictures and recordings; by default all are in the page.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sureness"] = sureness
    style = resources.files("pipeline.report").joinpath("style.css").read_text(encoding="utf-8")
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    entries = (
        PageEntry(
            each,
            local_words(each.record.after.moment, local),
            _pictures(each, addresses.picture),
            addresses.clip(each),
        )
        for each in found
    )
    return environment.from_string(source).generate(
        title=title,
        facts=facts,
        faults=faults,
        entries=entries,
        sources=addresses.sources,
        style=Markup(style),  # noqa: S704 - our own file
    )


def _pictures(found: FoundRecord, address: Callable[[Path], str]) -> tuple[tuple[str, str], ...]:
    sides = ("overlay",) if "overlay" in found.pictures else ("before", "after")
    named = {"overlay": "before and after"}
    shown = (
        (named.get(side, side), address(found.pictures[side])) for side in sides if side in found.pictures
    )
    return tuple((name, where) for name, where in shown if where)
