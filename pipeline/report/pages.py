"""The templates, style sheet and script of every page, and the pages that are one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report.card import COLOURS, Card

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""Media types of the files that pages fetch, or hold."""

WITHIN = "data:"
BESIDE = "'self' file: data:"
"""From where a page may have pictures and recordings, as its Content-Security-Policy says it."""

_MEDIA = {".jpg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class Head:
    """What stands above the records of a page that is one file.

    Attributes:
        title: its heading.
        facts: ``(name, value)``.
        notices: what the reader must know, one sentence each: gaps, what does not verify.
        happenings: ``(words, fragment that filters for it)``.
        missing: what was not recorded and why; None where nothing is said of that.
        choices: of the filter, ``(name, label, [(value, words)])``; empty for no filter.
        held: how many records a limit held back, hidden at first.
        audit: ``(name, value)`` for auditors.
        last: ``(camera, number, hash)`` of each camera's last record.
        sources: `WITHIN` or `BESIDE`.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    notices: Sequence[str] = ()
    happenings: Sequence[tuple[str, str]] = ()
    missing: Sequence[str] | None = None
    choices: Sequence[tuple[str, str, Sequence[tuple[str, str]]]] = ()
    held: int = 0
    audit: Sequence[tuple[str, str]] = ()
    last: Sequence[tuple[str, int, str]] = ()
    sources: str = WITHIN


def records_page(head: Head, cards: Iterable[Card]) -> Iterator[str]:
    """Self-contained HTML in parts, so that its pictures are never all in memory."""
    return environment(__package__).get_template("records.html.j2").generate(head=head, cards=cards)


@cache
def environment(*packages: str) -> Environment:
    """Jinja for the templates of packages and, behind them, the shared ones."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((*packages, __package__))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = static("page.js").decode()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.globals |= {
        "script": Markup(script),  # noqa: S704 - our own file
        "script_sha256": digest,
        "style": Markup(static("page.css").decode()),  # noqa: S704 - our own file
        "icon": Markup(static("icon.svg").decode()),  # noqa: S704 - our own file
        "colours": len(COLOURS),
        "zip": zip,
    }
    made.filters["embedded"] = embedded
    return made


def static(name: str) -> bytes:
    """The content of one of `STATIC`."""
    return resources.files(__package__).joinpath("static", name).read_bytes()


def embedded(content: bytes, suffix: str = ".webp") -> str:
    """The address of a picture that is in the page itself."""
    return f"data:{_MEDIA[suffix]};base64,{base64.b64encode(content).decode()}"


def embedded_file(path: Path) -> str:
    """Likewise, of a file; empty where retention has deleted it meanwhile."""
    try:
        return embedded(path.read_bytes(), path.suffix)
    except OSError:
        return ""
