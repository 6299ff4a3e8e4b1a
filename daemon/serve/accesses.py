"""Which requests are recorded in the access log, and as what."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request

from pipeline.journal import JournalError
from pipeline.journal.access_log import Deed, record_access

_PAGES = ("/", "/review", "/digest", "/rules", "/week")

logger = logging.getLogger(__name__)


class AccessRecorder:
    """Records who has logged in, looked at what, and marked it; not pictures and the like by themselves.

    What is recorded is on disk before the page is sent. A log that cannot be written is logged, and does
    not keep anybody from looking.

    Args:
        path: of the access log.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._fault = path, ""
        self._lock = asyncio.Lock()

    async def note(self, request: Request, status: int) -> None:
        """Record a request by its answer."""
        if (deed := deed_of(request, status)) is None:
            return
        what, detail = deed
        who = request.state.user or getattr(request.state, "name", "")
        address = request.client.host if request.client else ""
        async with self._lock:
            try:
                await asyncio.to_thread(
                    record_access, self._path, what, who=who, address=address, detail=detail
                )
                self._fault = ""
            except (OSError, JournalError) as error:
                if str(error) != self._fault:
                    logger.error("accesses are not recorded: %s", error)  # noqa: TRY400 - no bug
                self._fault = str(error)


def deed_of(request: Request, status: int) -> tuple[Deed, str] | None:
    """What a request is recorded as, and its detail; None for what is no look at the record."""
    path = request.url.path
    record, camera = path.removeprefix("/record/"), path.removeprefix("/camera/")
    if request.method == "POST":
        posted: dict[tuple[str, int], Deed] = {
            ("/login", HTTPStatus.SEE_OTHER): "login",
            ("/login", HTTPStatus.FORBIDDEN): "refused",
            ("/login", HTTPStatus.TOO_MANY_REQUESTS): "refused",
            ("/logout", HTTPStatus.SEE_OTHER): "logout",
            (f"/record/{record}", HTTPStatus.SEE_OTHER): "mark",
            (f"/camera/{camera}", HTTPStatus.SEE_OTHER): "configure",
        }
        what = posted.get((path, status))
        detail = {"mark": record, "configure": camera}.get(what or "", "")
        return (what, detail) if what else None
    if request.method != "GET" or status != HTTPStatus.OK:
        return None
    if path == "/feed":  # a page that follows was recorded when it was opened
        return None if request.state.follows else ("view", "/")
    if path in ("/review", "/digest", "/rules") and request.url.query:
        return "query", request.url.query
    return ("view", record) if record != path or path in _PAGES or camera != path else None
