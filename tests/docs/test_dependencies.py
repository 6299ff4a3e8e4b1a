"""docs/dependencies.md names every package of pyproject.toml, and what each is for."""

import re
import tomllib

from doc_pages import ROOT, page, table


def test_every_package_has_its_line():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: items for name, items in project["optional-dependencies"].items() if name != "dev"}
    wanted = {item.split(">")[0] for items in (project["dependencies"], *extras.values()) for item in items}
    base, by_extra = (table(part) for part in page("dependencies.md").split("By extras"))
    assert all(row[-1] for row in (*base, *by_extra))
    named = {name for row in base for name in re.findall(r"`?([\w.\[\]-]+)`?,?", row[0])}
    named |= {name for row in by_extra for name in re.findall(r"`([^`]+)`", row[1])}
    assert wanted <= named
    assert {row[0] for row in by_extra if row[0]} == {*extras, "dev"}
