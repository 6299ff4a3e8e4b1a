"""`narrated serve`: startup, serving, shutdown; a process of its own that only reads the record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from daemon.config.serve import ServeSettings
from daemon.questions.errors import SearchError
from daemon.questions.local_time import LocalTime
from daemon.serve.access import GuessLimit, Passwords, SessionCookies, password_file, session_key
from daemon.serve.camera_tiles import CameraTiles
from daemon.serve.errors import ServeError
from daemon.serve.guard import Guard, GuardOptions
from daemon.serve.pictures import PictureShelf
from daemon.serve.routes import Routes
from daemon.serve.search_thread import SearchThread
from daemon.serve.site import Site
from daemon.service.systemd import ServiceWatch
from pipeline.evidence import evidence_beside
from pipeline.feedback import FILE, FeedbackError, FeedbackStore

_TURN_S = 0.5
_ANSWER_S = 20.0
_CONNECTIONS = 256
_LARGEST_HEAD = 16 * 1024
_GRACE_S = 3


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served.

    Attributes:
        folder: of the journals.
        evidence: folder of the pictures; None is the one in or beside that of the journals.
        own: folder of what the page writes: feedback, and the key of its cookies.
        cameras: of the configuration; None where there is none.
        health: where the daemon's own pages are; None where they are not.
    """

    folder: Path
    evidence: Path | None = None
    own: Path | None = None
    cameras: Collection[str] | None = None
    health: tuple[str, int] | None = None


def build_site(settings: ServeSettings, options: ServeOptions) -> Site:
    """The parts of the page.

    Raises:
        ServeError: passwords, the key of the cookies or the feedback cannot be used.
        SearchError: there is no such time zone.
    """
    passwords = Passwords(password_file(settings.passwords, os.environ)) if settings.passwords else None
    local = LocalTime.named(settings.timezone)
    own = options.own or options.folder.parent
    try:
        feedback = FeedbackStore(settings.feedback or own / FILE)
    except FeedbackError as error:
        raise ServeError(str(error)) from None
    return Site(
        SearchThread(options.folder, local, options.evidence),
        feedback,
        CameraTiles(options.cameras, options.health),
        PictureShelf(options.evidence or evidence_beside(options.folder)),
        SessionCookies(session_key(own if passwords else None), passwords),
        passwords,
        GuessLimit(),
        local,
    )


def build_guard(site: Site, settings: ServeSettings) -> Guard:
    """The whole application, as a server of ASGI takes it."""
    routes = Routes(site)
    encrypted = settings.certificate is not None or settings.proxy
    app = Starlette(
        routes=routes.all(), exception_handlers={HTTPException: routes.error, Exception: routes.error}
    )
    names = {*settings.hosts, settings.listen[0].lower()}
    guard = Guard(app, site.sessions, GuardOptions(names, site.passwords is not None, encrypted))
    routes.guard = guard
    return guard


def serve(
    settings: ServeSettings,
    options: ServeOptions,
    told: Callable[[str], None],
) -> int:
    """Serve until SIGTERM or Ctrl-C; `told` is given the address once it is served.

    Returns:
        The exit code.

    Raises:
        ServeError: it cannot be served; see also `build_site`.
    """
    site = build_site(settings, options)
    try:
        return asyncio.run(_serve(site, settings, told))
    finally:
        site.feedback.close()


async def _serve(site: Site, settings: ServeSettings, told: Callable[[str], None]) -> int:
    host, port = settings.listen
    key = str(password_file(settings.key, os.environ)) if settings.key else None
    config = uvicorn.Config(
        build_guard(site, settings),
        host=host,
        port=port,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=settings.proxy,
        forwarded_allow_ips=["127.0.0.1", "::1"],
        ssl_certfile=settings.certificate,
        ssl_keyfile=key,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_graceful_shutdown=_GRACE_S,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    try:
        config.load()
    except OSError as error:
        raise ServeError(f"serve.certificate: cannot be used: {error.strerror or error}") from None
    server = _PageServer(config, site)
    try:
        listening = _bound(host, port)
    except OSError as error:
        raise ServeError(
            f"{host}:{port} cannot be listened on ({error.strerror}): give another --listen"
        ) from None
    with listening:
        scheme = "https" if settings.certificate else "http"
        shown, actual = (f"[{host}]" if ":" in host else host), listening.getsockname()[1]
        told(f"{scheme}://{shown}:{actual}/")
        async with _reading(site, server):
            await server.serve([listening])
    if server.failure:
        raise server.failure
    return 0


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens; uvicorn's own would end the process where it cannot."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_CONNECTIONS)  # whoever is told the address may come before the loop runs
    except OSError:
        made.close()
        raise
    return made


class _PageServer(uvicorn.Server):
    """Tells whoever follows the live page that it ends."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site
        self.failure: Exception | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # it ended as it should: 0, not the signal once more

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Ends the streams first: they would never end by themselves."""
        self._site.search.dismiss()
        await super().shutdown(sockets)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def _reading(site: Site, server: _PageServer) -> AsyncIterator[None]:
    """Reads the journals meanwhile, and feeds the watchdog while they can be asked."""
    watch = ServiceWatch()
    task = asyncio.create_task(_follow(site, server, watch))
    try:
        yield
    finally:
        watch.stopping()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await site.search.close()
        watch.close()


async def _follow(site: Site, server: _PageServer, watch: ServiceWatch) -> None:
    try:
        start = asyncio.create_task(site.search.start())
        watch.ready("reading the journals")
        while not start.done():
            watch.progress(f"reading the journals, {site.search.reading or 0:,} records", healthy=True)
            await asyncio.wait([start], timeout=_TURN_S)
        await start
        while True:
            await asyncio.wait_for(site.search.ask(lambda _: None), _ANSWER_S)
            watch.progress(f"{site.search.listening} follow the live page", healthy=True)
            await asyncio.sleep(_TURN_S)
    except (SearchError, OSError, TimeoutError) as error:
        server.failure = ServeError(str(error) or "the journals could not be asked within 20 s")
        server.should_exit = True
