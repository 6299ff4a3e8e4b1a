"""docs/metrics.md has every metric that there is and no other, and every alert of configs/prometheus."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import yaml
from doc_pages import ROOT, page, sections, table

KINDS = {"GaugeMetricFamily": "gauge", "CounterMetricFamily": "counter", "Histogram": "histogram"}


def exported() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, kind and labels of every metric that a module of the daemon makes."""
    for path in sorted((ROOT / "daemon").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                yield from _made(function)


def _made(function: ast.FunctionDef) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    lists = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and (kind := KINDS.get(getattr(call.func, "id", ""))):
            name = ast.literal_eval(call.args[0])
            third = call.args[2] if len(call.args) > 2 and kind == "histogram" else ast.List([])
            labels = next((word.value for word in call.keywords if word.arg == "labels"), third)
            yield name + "_total" * (kind == "counter"), kind, tuple(_labels(labels, lists))


def _labels(labels: ast.expr, lists: dict[str, ast.expr]) -> Iterator[str]:
    match labels:
        case ast.List(elts):
            for each in elts:
                yield from _labels(each, lists)
        case ast.Starred(value):
            yield from _labels(value, lists)
        case ast.Name(name):
            yield from _labels(lists[name], lists)
        case ast.Constant(str(text)):
            yield text


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = table(sections(page("metrics.md"))["The metrics"])
    assert len({row[0] for row in rows}) == len(rows)
    assert all(row[3] for row in rows)
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in rows}


def test_the_page_has_every_metric() -> None:
    found = list(exported())
    assert len(found) > 30
    assert documented() == {name: (kind, labels) for name, kind, labels in found}


def test_the_page_has_every_alert() -> None:
    rules = yaml.safe_load((ROOT / "configs" / "prometheus" / "narrated.rules.yml").read_text())
    named = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert [row[0] for row in table(sections(page("metrics.md"))["Alert rules"])] == named
