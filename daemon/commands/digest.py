from json import dumps  # `json` is an option
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from daemon.commands import selection
from daemon.commands.options import Journals, Json, OptionalFile, TimeZone
from daemon.digest.digest import members, page, text_lines, write_digest
from daemon.questions.asker import read_span
from daemon.questions.question import NoJournalsError
from pipeline.disk import replacing


def digest(
    span: Annotated[list[str] | None, Argument(help="yesterday, since 8 am, ...; by default today.")] = None,
    *,
    journal: Journals = None,
    config: OptionalFile = None,
    timezone: TimeZone = None,
    html: Annotated[Path | None, Option(help="Write a page with two pictures to this file.")] = None,
    json: Json = False,
) -> None:
    """Sum up what happened in a dozen sentences, and what was unusual compared with four weeks before."""
    chosen = selection.Selection(journal=journal, config=config, timezone=timezone)
    with chosen.search() as (search, _):
        now = selection.present()
        told = write_digest(search, read_span(" ".join(span or ["today"]), now, search.local), now)
        if html:
            try:
                is_device = html.exists() and not html.is_file()  # /dev/stdout, say, is never replaced
                with html.open("wb") if is_device else replacing(html.resolve(), durable=False) as file:
                    file.write(page(told, search.local).encode())
            except OSError as error:
                raise NoJournalsError(f"cannot write {html}: {error.strerror or error}") from None
        if json:
            typer.echo(dumps(members(told, search.local), ensure_ascii=False, indent=1))
        elif not html:
            typer.echo("\n".join(text_lines(told)))
