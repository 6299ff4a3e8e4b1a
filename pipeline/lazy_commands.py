"""A group of commands, each imported when it is called, so that --help need not wait for any of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommands(TyperGroup):
    """Finds a command in a file of its name.

    Attributes:
        package: holds a file for each command, with a function of the file's name.
        verbs: what --help says of each command, in its order.
    """

    package: ClassVar[str]
    verbs: ClassVar[Mapping[str, str]]
    _listing = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=text) for name, text in self.verbs.items()}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - of the group
        """The command of that name, None where there is none."""
        if self._listing or cmd_name not in self.verbs:
            return self.commands.get(cmd_name)
        file, alone = cmd_name.replace("-", "_"), typer.Typer(add_completion=False)
        alone.command(cmd_name)(getattr(import_module(f"{self.package}.{file}"), file))
        return typer.main.get_command(alone)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands."""
        self._listing = True
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of the group
        """Their names, in the order of --help."""
        return list(self.verbs)
