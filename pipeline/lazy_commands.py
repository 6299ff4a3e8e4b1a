"""A group of commands, each imported when it is called; both command lines are made of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommands(TyperGroup):
    """A command's file is imported when the command is called; what it does, --help reads in its source.

    Attributes:
        package: holds a file for each command, with a function of the file's name.
        names: of the commands, in the order of --help.
        aliases: further names of commands, which --help does not show.
    """

    package: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    aliases: ClassVar[Mapping[str, str]] = {}
    _listed = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.names, TyperCommand(None))  # to suggest for a misspelt one

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - of the group
        """The command of that name, None where there is none."""
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.names:
            return None
        if self._listed:
            return TyperCommand(name, help=self._said_of(name))
        file, alone = name.replace("-", "_"), typer.Typer(add_completion=False)
        alone.command(name)(getattr(import_module(f"{self.package}.{file}"), file))
        return typer.main.get_command(alone)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands."""
        self._listed = True
        super().format_help(ctx, formatter)

    def _said_of(self, name: str) -> str | None:
        """The docstring of a command's function, without what its file imports."""
        file = name.replace("-", "_")
        source = Path(import_module(self.package).__path__[0], f"{file}.py").read_text(encoding="utf-8")
        functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
        return next((ast.get_docstring(each) for each in functions if each.name == file), None)
