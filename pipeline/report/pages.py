"""The templates, style sheet and script of every page, and the pages that are one file."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from models.language.catalogue import language, tell
from pipeline.report.card import COLOURS, SIDES, Card
from pipeline.report.words import counted, format_date

MEDIA_TYPES = {".jpg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True, slots=True)
class Head:
    title: str
    facts: Sequence[tuple[str, str]] = ()  # ``(name, value)``
    missing: Sequence[str] | None = None  # sentences on what was not reported; None: no section
    held: int = 0  # number of records that a limit held back, hidden at first
    audit: Sequence[tuple[str, str]] = ()  # ``(name, value)`` for auditors
    last: Sequence[tuple[str, int, str]] = ()  # ``(camera, number, hash)`` of each camera's last record


def records_page(head: Head, cards: Iterable[Card]) -> Iterator[str]:
    """Self-contained HTML in parts, so that its pictures are never all in memory."""
    return environment().get_template("records.html.j2").generate(head=head, cards=cards)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_callables(language.gettext, language.ngettext, newstyle=False)  # type: ignore[attr-defined]
    static = resources.files(__package__).joinpath("static")
    files = {name: static.joinpath(name).read_bytes() for name in ("page.css", "page.js", "icon.svg")}
    made.globals |= {
        "style": Markup(files["page.css"].decode()),  # noqa: S704 - our own files
        "script": Markup(files["page.js"].decode()),  # noqa: S704
        "icon": Markup(files["icon.svg"].decode()),  # noqa: S704
        "script_sha256": base64.b64encode(hashlib.sha256(files["page.js"]).digest()).decode(),
        "colours": len(COLOURS),
        "sides": SIDES,
        "zip": zip,
        "served": False,  # a page is one file by itself, unless it says that it is served
        "language": language,
        "tell": tell,
        "counted": counted,
        "format_date": format_date,
    }
    made.filters["told"] = language.gettext
    made.filters["points"] = lambda points: " ".join(f"{x:g},{y:g}" for x, y in points)
    made.globals["pieces"] = made.get_template("pieces.html.j2").module
    return made
