"""A missing extra is named with its pip command, whichever command needs it."""

import logging
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from daemon import cli
from pipeline.extras import EXTRAS, missing_extra


def test_every_module_is_of_its_extra():
    project = Path(__file__).parents[3] / "pyproject.toml"
    declared = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"dev"}
    installed = packages_distributions()
    for extra, own in EXTRAS.items():
        names = {re.split(r"[>\[]", item)[0].lower() for item in declared[extra]}
        for module in set(own) & set(installed):
            assert {each.lower() for each in installed[module]} & names, module


@pytest.mark.parametrize(
    ("arguments", "module", "extra", "room"),
    [
        (["forward", "-c", "n.yaml"], "apprise", "forward", "daemon.forward"),
        (["serve", "--journal", "."], "starlette", "serve", "daemon.serve"),
        (["replay", "x.mp4", "--ray", "local", "--out", "o"], "ray", "ray", "daemon.replay"),
    ],
)
def test_commands_name_what_is_missing(arguments, module, extra, room, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", logging.root.handlers[:])  # not of later tests
    (tmp_path / "n.yaml").write_text(
        "version: 1\nstate: s\nredis: {url: 'redis://127.0.0.1:1'}\ncameras: {a: {url: 'rtsp://h/1'}}\n"
        "forward: {apprise: {phone: {url: 'json://127.0.0.1:1'}}}\n"
    )
    (tmp_path / "x.mp4").touch()
    for name in [name for name in sys.modules if name == room or name.startswith(f"{room}.")]:
        parent, _, child = name.rpartition(".")
        if hasattr(sys.modules.get(parent), child):  # so that the package has its own module again at the end
            monkeypatch.setattr(sys.modules[parent], child, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert missing_extra(ModuleNotFoundError(name="nowhere.at_all")) == ""
    assert cli.main(arguments) == 1
    assert f"pip install 'narrated[{extra}]'" in capsys.readouterr().err
