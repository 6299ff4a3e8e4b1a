import asyncio
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from daemon.commands.options import Journals, OptionalFile, TimeZone, override
from daemon.commands.selection import errors_as_exits
from daemon.config.configuration import load_configuration
from daemon.config.secrets import secret_file
from daemon.config.settings import Configuration, ServeSettings
from daemon.config.units import unit_folder, usual_state
from daemon.search.index import default_state, journal_folder, make_journal_folder
from daemon.service.process import start_logging
from pipeline.record_format import ACCESS_LOG


def serve(
    config: OptionalFile = None,
    *,
    journal: Journals = None,
    listen: Annotated[str | None, Option(help="Address and port; overrides serve.listen.")] = None,
    passwords: Annotated[str | None, Option(help="File of users; overrides serve.passwords.")] = None,
    timezone: TimeZone = None,
    new_password: Annotated[
        str | None,
        Option(metavar="NAME", help="Append NAME's new password to --passwords, or print its line."),
    ] = None,
) -> None:
    """Serve a web page with live and past narrations, until SIGTERM or Ctrl-C."""
    if new_password is not None:
        _new_password(new_password, passwords)
        return
    configuration = load_configuration(config) if config else None
    written = configuration.serve if configuration else ServeSettings()
    settings = override(written, listen=listen, passwords=passwords)
    serve_page(settings, configuration, journal, timezone=timezone, config=config)


def serve_page(
    settings: ServeSettings,
    configuration: Configuration | None,
    journal: Path | None,
    *,
    timezone: str | None = None,
    config: Path | None = None,
) -> None:
    """Serve; `config` is the configuration's file. Where the folder cannot be read stderr has the reason."""
    from daemon.serve.cameras import Cameras  # noqa: PLC0415
    from daemon.serve.server import serve as run  # noqa: PLC0415 - the extra
    from daemon.serve.site import Site  # noqa: PLC0415

    start_logging()
    state = configuration.state if configuration else default_state(usual_state())
    with errors_as_exits():
        if configuration and not journal:  # the daemon may start after its page
            make_journal_folder(state)
        folder = journal_folder(journal or state)
        own = unit_folder(folder.parent if folder.name == "journal" else folder)
        timezone = timezone or (configuration.timezone if configuration else None)
        site = Site(settings, folder, own, timezone, Cameras(config, configuration))
        say = lambda address: typer.echo(f"{address}  (Ctrl-C ends it)", err=True)  # noqa: E731
        with closing(site):
            asyncio.run(run(site, settings, own / ACCESS_LOG, say))


def _new_password(name: str, file: str | None) -> None:
    """Ask for a password twice, without showing it; its line goes to the end of the file, or to stdout."""
    from daemon.serve.access import password_line  # noqa: PLC0415 - the extra

    if sys.stdin.isatty():
        password = typer.prompt(f"password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    line = password_line(name, password) + "\n"
    if file is None:
        sys.stdout.write(line)
        return
    path = secret_file(file)
    path.touch(0o600)
    with path.open("a") as lines:
        lines.write(line)
