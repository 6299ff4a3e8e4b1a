"""The rows of each paper's tables: that the full size is the paper's setting."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from train.papers.suites import SUITES, System, merged

ROOT = Path(__file__).parents[3]


def rows(suite: str) -> dict[str, System]:
    return {row.key: row for row in SUITES[suite]().rows}


def test_full_ddla_and_its_baselines_see_no_coordinates() -> None:
    for key in ("capt", "capt-masked", "capt-multi", "ddla", "ddla-uniform"):
        row = rows("spot-the-diff")[key]
        assert not row.content("full")["arguments"].get("coordinates", False)
        assert row.content("small")["arguments"]["coordinates"], "these few steps need them"


def test_full_duda_is_trained_as_its_code_does() -> None:
    own = rows("clevr-change")["duda"].content("full")["training"]
    assert own["batch"] == 2 * 128
    assert (own["learning_rate"], own["decay"], own["decay_every"]) == (1e-3, 0.1, 15)
    assert (own["drawn"], own["swapped"]) == (True, 0.5)
    assert own["epochs"] == 10_000 * 128 // (67_660 // 2) + 1
    joint = rows("clevr-change")["duda-joint"].content("full")
    assert (joint["training"]["epochs"], joint["training"]["learning_rate"]) == (60, 5e-3)
    assert joint["training"]["decay"] == 1, "the paper names one rate"
    assert joint["training"]["drawn"]
    small = rows("clevr-change")["duda"].content("small")["training"]
    assert not small["drawn"]
    assert not small["swapped"]


@pytest.mark.parametrize("name", ["duda", "duda-joint", "capt-att", "capt-pix-diff"])
def test_the_shipped_configuration_trains_as_the_full_row(name: str) -> None:
    row = rows("clevr-change")[name].content("full")["training"]
    shipped = yaml.safe_load((ROOT / "configs" / "train" / f"{name}.yaml").read_text())["training"]
    assert merged(row, shipped) == row


def test_what_idc_pcl_changes_in_the_small_size_stands_in_its_page() -> None:
    suite = SUITES["idc-pcl"]()
    small = rows("idc-pcl")["fda"].content("small")["pretraining"]["objective"]["arguments"]
    [note] = suite.notes
    assert f"masks {100 * small['masked']:.0f} % of words and cells instead of 15 %" in note
    assert f"temperature of {small['temperature']} instead of 1" in note


@pytest.mark.parametrize("name", ["idc-pcl", "spot-the-diff", "clevr-change"])
def test_notes_stand_in_the_page(name: str) -> None:
    page = (ROOT / "benchmarks" / "papers" / f"{name}.md").read_text()
    assert all(note in page for note in SUITES[name]().notes)
