"""The parts of the page, and how a page is made of a template."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from daemon import __version__
from daemon.questions.local_time import LocalTime
from daemon.search.found import FoundRecord
from daemon.search.output import local_words
from daemon.serve.access import GuessLimit, Passwords, Session, SessionCookies
from daemon.serve.camera_tiles import CameraTile, CameraTiles
from daemon.serve.cards import NarrationCard
from daemon.serve.pictures import PictureShelf
from daemon.serve.search_thread import SearchThread
from pipeline.feedback import FeedbackStore, Remarks

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Everything that the pages are made of.

    Attributes:
        search: asks the journals.
        feedback: what people say of records.
        states: how the cameras are.
        pictures: of the evidence.
        sessions: cookies and tokens.
        passwords: of those who may log in; None where nobody is asked.
        guesses: limits wrong passwords.
        local: in which times are told.
    """

    search: SearchThread
    feedback: FeedbackStore
    states: CameraTiles
    pictures: PictureShelf
    sessions: SessionCookies
    passwords: Passwords | None
    guesses: GuessLimit
    local: LocalTime

    def page(self, request: Request, name: str, status: int = HTTPStatus.OK, **values: Any) -> Response:
        """A page of the template of that name."""
        session: Session = request.state.session
        values = {
            "site": self,
            "session": session,
            "token": self.sessions.token(session),
            "now": datetime.now(UTC),
            "path": request.url.path,
            **values,
        }
        return HTMLResponse(_templates().get_template(f"{name}.html.j2").render(values), status)

    def fragment(self, name: str, **values: Any) -> str:
        """A macro of the template of pieces, such as one card."""
        module = _templates().get_template("pieces.html.j2").make_module({"site": self})
        return str(getattr(module, name)(**values)).strip()

    def cards(self, found: list[FoundRecord]) -> list[NarrationCard]:
        """Narrations with what people say of them."""
        remarks, nothing = self.feedback.remarks([each.record.id for each in found]), Remarks(None, None, {})
        return [NarrationCard(each, remarks.get(each.record.id, nothing), self.local) for each in found]

    async def camera_states(self) -> list[CameraTile]:
        """How all cameras are."""
        return await self.states.now(self.search.latest)

    def words(self, moment: datetime) -> str:
        """A time as people here read it."""
        return local_words(moment, self.local)


def static(name: str) -> bytes | None:
    """A file that pages fetch; None for any other name."""
    if name not in STATIC:
        return None
    return resources.files(__package__).joinpath("static", name).read_bytes()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("daemon.serve", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    return environment
