"""`narrated serve`: startup, serving, shutdown; a process of its own that only reads the record."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon.config.settings import ServeSettings
from daemon.serve.access import Guard, ServeError
from daemon.serve.site import Site
from daemon.service.process import ServiceWatch

_TURN_S = 0.5
_CONNECTIONS = 256  # beyond, requests are refused; beyond twice as many, connections
_REQUEST_S = 20.0  # in which a connection must send a whole head
_GRACE_S = 3


class _Connection(H11Protocol):
    """Closed where it is one too many or brings no request: a few hundred would block the page."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > 2 * _CONNECTIONS:
            transport.abort()
        self.loop.call_later(_REQUEST_S, self._look, None)

    def _look(self, before: object) -> None:
        """Close it unless another request has come than the last one before, or one is being answered."""
        if self.transport.is_closing():
            return
        if self.cycle is before and (before is None or self.cycle.response_complete):
            self.transport.abort()
        else:
            self.loop.call_later(_REQUEST_S, self._look, self.cycle)


async def serve(site: Site, settings: ServeSettings, accesses: Path, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Who looks at what is recorded in the file `accesses`; `say` is given the address once it is served.
    """
    host, port = settings.listen
    handlers: Any = {HTTPException: site.error, Exception: site.error}
    app = Starlette(routes=site.routes(), exception_handlers=handlers)
    config = uvicorn.Config(
        Guard(app, {*settings.hosts, host.lower()}, site.logins, accesses),
        http=_Connection,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=settings.proxy,
        forwarded_allow_ips=["127.0.0.1", "::1"],
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
    )
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    server = uvicorn.Server(config)
    try:  # uvicorn's own socket would end the process where it cannot listen
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host}:{port} ({error.strerror}): give another --listen"
        ) from None
    with listening, contextlib.closing(ServiceWatch()) as watch:
        watch.ready("reading the journals")
        site.answered = lambda: watch.progress("serving", healthy=True)
        start = asyncio.create_task(asyncio.to_thread(site.open))
        while not (await asyncio.wait([start], timeout=_TURN_S))[0]:
            watch.progress("reading the journals", healthy=True)
        await start
        for number in (signal.SIGTERM, signal.SIGINT):
            # Until uvicorn listens to them itself; it raises them once more behind its end, which is 0.
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        say(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/")
        following = asyncio.create_task(_follow(site, server))
        await server.serve([listening])
        server.should_exit = True
        watch.stopping()
        await following


async def _follow(site: Site, server: uvicorn.Server) -> None:
    """Catch up while nobody asks; what cannot be caught up with ends the page."""

    def catch_up() -> None:
        with site.search():
            pass

    try:
        while not server.should_exit:
            await asyncio.to_thread(catch_up)
            await asyncio.sleep(_TURN_S)
    finally:
        server.should_exit = True
