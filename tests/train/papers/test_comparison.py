"""`narrated-train compare` on the toy samples: what is trained, what is kept, what is gone on with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from train.learning.config import ConfigError, load_config
from train.learning.loop import TrainError, state_path
from train.learning.run_options import Telling
from train.metrics.scores import text_scores
from train.papers.claims import difference
from train.papers.comparison import (
    CompareOptions,
    chosen_rows,
    first_pairs,
    row_config,
    rows_left_out,
)
from train.papers.results import Result, pair_ciders, read_result, spread
from train.papers.side_by_side import compare_rows, fitting_workers
from train.papers.suites import NARRATOR_ROW, SIZES, SUITES, Suite, merged

CONFIGS = Path(__file__).parents[3] / "configs" / "train"
NAMES = list(SUITES)
SAME_AS_FILE = {
    "spot-the-diff": ["nn", "capt", "capt-masked", "ddla-uniform", "ddla", "nn-multi", "capt-multi"],
    "clevr-change": [
        "capt-pix-diff",
        "capt-rep-diff",
        "capt-att",
        "capt-dual-att",
        "duda",
        "duda-joint",
    ],
    "idc-pcl": ["fda=idc-pcl"],
    "spot-it": ["augmented=spot-it"],
    "spot-the-diff-auxiliary": ["ddla", "duda", "duda-joint"],
    "birds-to-words": ["both=idc-pcl-birds"],
}
EVERY = {"single_images": Path("cub"), "classes": Path("nabirds")}


def toy_suite(*keys: str) -> Suite:
    """Rows of the Spot-the-diff suite with the toy encoder, small enough for a test."""
    suite = SUITES["spot-the-diff"]()
    tiny = {
        "encoder": "toy",
        "changes": {"eps": 3.0},
        "training": {"epochs": 2, "batch": 12},
    }
    sizes = {"features": 12, "words": 12, "hidden": 16, "attention": 8}
    rows = [
        replace(row, small=merged(row.small, merged(tiny, {} if "nn" in row.key else {"arguments": sizes})))
        for row in suite.rows
        if row.key in keys
    ]
    return replace(suite, rows=tuple(rows))


@pytest.fixture
def options(sample_folder: Path, tmp_path: Path, features: Path) -> CompareOptions:
    return CompareOptions(sample_folder, tmp_path / "out", seeds=(0, 1), cache=features)


def results_of(suite: Suite, options: CompareOptions, telling: Telling | None = None) -> list[Result]:
    *_, (_, results) = compare_rows(suite, options, telling=telling or Telling())
    return results


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_row_has_a_valid_configuration(name: str, size: str) -> None:
    suite = SUITES[name]()
    chosen = CompareOptions(Path("pairs"), Path("out"), size=size, folders=EVERY)
    for row in suite.rows:
        config = row_config(row, chosen, seed=2)
        assert config.training.seed == 2
        assert config.pretrain_options().seed == 2


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_claims_name_rows_that_exist(name: str) -> None:
    suite = SUITES[name]()
    keys = {row.key for row in suite.rows}
    assert len(keys) == len(suite.rows)
    for table in suite.tables:
        assert keys >= set(table.rows) >= set(table.theirs)
        assert all(len(figures) == len(table.columns) for figures in table.theirs.values())
    for claim in suite.claims:
        assert {claim.better, claim.worse} <= keys


@pytest.mark.parametrize("name", NAMES)
def test_the_full_size_is_that_of_the_configuration_files(name: str) -> None:
    rows = {row.key: row for row in SUITES[name]().rows}
    chosen = CompareOptions(Path("pairs"), Path("out"), size="full", folders=EVERY)
    for each in SAME_AS_FILE[name]:
        key, _, file = each.partition("=")
        ours = row_config(rows[key], chosen, 0).model_dump()
        theirs = load_config(CONFIGS / f"{file or key}.yaml", seed=0).model_dump()
        for section in ("captioner", "encoder", "min_count", "changes", "training"):
            assert ours[section] == theirs[section], (key, section)
        classes = {**yaml.safe_load((CONFIGS / f"{file or key}.yaml").read_text()).get("arguments", {})}
        defaults = {k: v for k, v in ours["arguments"].items() if k != "seed"}
        assert classes.items() >= defaults.items()


@pytest.mark.usefixtures("toy_encoder")
def test_a_finished_run_is_not_trained_again(options: CompareOptions) -> None:
    suite = toy_suite("nn", "capt", "ddla")
    first = results_of(suite, options)
    assert [(r.row, r.seed) for r in first] == [(k, s) for s in (0, 1) for k in ("nn", "capt", "ddla")]
    told: list[str] = []
    again = results_of(suite, options, Telling(note=told.append))
    assert again == first
    grounded = {"learning": {"members": 3}}  # of another captioner
    same = replace(suite, rows=tuple(replace(row, small=merged(row.small, grounded)) for row in suite.rows))
    assert results_of(same, options, Telling(note=told.append)) == first
    assert told == []
    assert not list(options.out.rglob("*.state"))
    ddla = first[-1]
    assert ddla.parameters > 0
    assert ddla.peak_mib
    assert ddla.samples_per_s
    assert len(ddla.curves) == 2
    assert len(ddla.single) == len(ddla.multi) == 3
    assert ddla.value("alignment.chance") is None or ddla.value("alignment.chance") > 0
    assert ddla.value("single.bleu.3") == ddla.evaluation["single"]["bleu"][3]
    assert ddla.value("single.none") is None


class StoppedError(Exception):
    """As good as a kill."""


@pytest.mark.usefixtures("toy_encoder")
def test_an_interrupted_run_goes_on_from_its_last_epoch(options: CompareOptions, tmp_path: Path) -> None:
    suite = toy_suite("capt")
    one = replace(options, seeds=(0,))
    whole = results_of(suite, replace(one, out=tmp_path / "whole"))[0]

    def stop(epoch: int, done: int, _whole: int, _loss: float) -> None:
        if (epoch, done) == (2, 2):
            raise StoppedError

    with pytest.raises(StoppedError):
        results_of(suite, one, Telling(batch=stop))
    assert len(list(options.out.rglob("*.state"))) == 1
    epochs: list[int] = []
    resumed = results_of(suite, one, Telling(epoch=lambda point: epochs.append(point.epoch)))[0]
    assert epochs == [2]
    assert (resumed.curves, resumed.single, resumed.evaluation) == (
        whole.curves,
        whole.single,
        whole.evaluation,
    )


@pytest.mark.usefixtures("toy_encoder")
def test_other_settings_are_another_run(options: CompareOptions) -> None:
    suite = toy_suite("capt")
    one = replace(options, seeds=(0,))
    results_of(suite, one)
    shorter = results_of(suite, replace(one, epochs=1))[0]
    fewer = results_of(suite, replace(one, pairs=9))[0]
    assert len(shorter.curves) == 1
    assert fewer.mark != shorter.mark
    assert len(list((options.out / "runs").iterdir())) == 3


@pytest.mark.usefixtures("toy_encoder")
def test_damaged_results_and_unknown_rows_say_what_to_do(options: CompareOptions) -> None:
    suite = toy_suite("nn")
    one = replace(options, seeds=(0,))
    result = results_of(suite, one)[0]
    (path,) = options.out.rglob("result.json")
    path.write_text(path.read_text()[:-40])
    with pytest.raises(TrainError, match=r"result\.json is damaged .* delete .*trained again"):
        results_of(suite, one)
    shutil.rmtree(path.parent)
    assert results_of(suite, one)[0].single == result.single
    assert read_result(path.parent, "another") is None
    with pytest.raises(TrainError, match="no row 'duda'; there is nn"):
        results_of(suite, replace(one, rows=("duda",)))


@pytest.mark.usefixtures("toy_encoder")
def test_a_damaged_state_names_its_folder(options: CompareOptions) -> None:
    suite, one = toy_suite("capt"), replace(options, seeds=(0,))
    result = results_of(suite, one)[0]
    (folder,) = (options.out / "runs").iterdir()
    (folder / "result.json").unlink()
    state_path(folder / "model.safetensors").write_bytes(b"half")
    with pytest.raises(TrainError, match=r"CAPT, seed 0: .* is damaged .*its files are in"):
        results_of(suite, one)
    shutil.rmtree(folder)
    assert results_of(suite, one)[0].evaluation == result.evaluation


def test_rows_without_their_folders_are_left_out_and_say_so() -> None:
    suite, options = SUITES["birds-to-words"](), CompareOptions(Path("pairs"), Path("out"))
    assert [row.key for row in chosen_rows(suite, options)] == ["pairs"]
    assert rows_left_out(suite, options)[2] == (
        "+ both is left out: it needs --single-images FOLDER and --classes FOLDER"
    )
    cub = replace(options, folders={"single_images": Path("cub")})
    assert [row.key for row in chosen_rows(suite, cub)] == ["pairs", "single"]
    assert len(rows_left_out(suite, cub)) == 2
    pretraining = row_config(suite.rows[1], cub, 0).pretraining
    assert pretraining is not None
    assert pretraining.objective.arguments["single_images"] == "cub"
    with pytest.raises(TrainError, match="row both of suite birds-to-words needs --classes FOLDER"):
        chosen_rows(suite, replace(cub, rows=("both",)))


def test_first_pairs_are_another_split(splits: tuple) -> None:
    training, _ = splits
    few = first_pairs(training, 5)
    assert len(few.samples) == 5
    assert {position for position, _ in few.annotations} <= set(range(5))
    assert few.sha256 != training.sha256
    assert first_pairs(training, None) is first_pairs(training, 10_000) is training


def test_settings_that_do_not_suit_name_the_row() -> None:
    row = SUITES["clevr-change"]().rows[0]
    wrong = replace(row, small={"arguments": {"colour": 1}})
    with pytest.raises(ConfigError, match=r"row capt-pix-diff: arguments\.colour: unknown key"):
        row_config(wrong, CompareOptions(Path("pairs"), Path("out")), 0)


def test_spread_and_interval() -> None:
    results = [Result("", "a", "A", s, {"single": {"cider": value}}) for s, value in enumerate((0.2, 0.4))]
    found = spread(results, "single.cider")
    assert found is not None
    assert found.mean == pytest.approx(0.3)
    assert found.deviation == pytest.approx(0.1414, abs=1e-4)
    assert spread(results, "perplexity") is None
    rng = np.random.default_rng(0)
    scores = rng.normal(1.0, 0.5, (3, 400))
    low, high = difference(scores).interval()
    assert low < scores.mean() < high
    assert 0.03 < high - low < 0.2


@pytest.fixture
def toy_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = toy_suite("nn", "capt", "ddla")
    monkeypatch.setitem(SUITES, "spot-the-diff", lambda: suite)


@pytest.mark.usefixtures("toy_suites", "toy_encoder")
def test_the_command_writes_table_plots_and_json(options: CompareOptions, run) -> None:
    pytest.importorskip("matplotlib")
    out = options.out
    data = ("--data", options.data, "--cache", options.cache)
    code, shown, said = run(
        "compare",
        "--suite",
        "spot-the-diff",
        *data,
        "--out",
        out,
        "--seeds",
        2,
        "--no-meteor",
        "--no-bf16",
        "--workers",
        1,
        "--json",
    )
    assert code == 0, said
    content = json.loads(shown)
    assert [r["row"] for r in content["rows"]] == ["nn", "capt", "ddla"] * 2
    assert content == json.loads((out / "spot-the-diff.json").read_text())
    text = (out / "spot-the-diff.md").read_text()
    for expected in (
        "Table 4",
        "| DDLA | ",
        "| *theirs* | *0.343*",
        "_best constant of train_",
        "do not compare with ours",
        "## What the paper claims",
        "peak memory",
        "--seeds 2 --size small --no-bf16`",
        str(options.data.name),
    ):
        assert expected in text
    assert str(out.parent) not in text
    for picture in ("loss", "cider", "all-sentences"):
        assert (out / "spot-the-diff" / f"{picture}.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("toy_encoder")
def test_the_narrator_is_asked_once_for_all_seeds_and_suites(options: CompareOptions) -> None:
    toy = replace(NARRATOR_ROW, small={"encoder": "toy", "changes": {"eps": 3.0}})
    suite = replace(toy_suite(), rows=(toy,))
    first = results_of(suite, options)
    assert [(result.row, result.seed) for result in first] == [("narrator", 0), ("narrator", 1)]
    [kept] = options.out.glob("runs/*/result.json")
    written = kept.stat().st_mtime_ns
    again = results_of(replace(suite, name="another"), options)
    assert [result.single for result in again] == [result.single for result in first]
    assert [file.stat().st_mtime_ns for file in options.out.glob("runs/*/result.json")] == [written]


def test_pair_ciders_are_those_of_the_text_scores(splits: tuple) -> None:
    _, validation = splits
    said = tuple(told[0] for told in validation.sentences)
    found = pair_ciders([Result("", "a", "A", 0, {}, said, said)], validation)
    assert found is not None
    assert found.shape == (1, len(validation.samples))
    assert found.mean() == pytest.approx(text_scores(said, validation.sentences).cider)


def test_runs_side_by_side_give_the_same_results(make_samples: Callable[..., Path], tmp_path: Path) -> None:
    """In processes of their own; the encoder needs no weights, since they know no toy."""
    suite = toy_suite("nn", "capt")
    blind = replace(
        suite, rows=tuple(replace(r, small=merged(r.small, {"encoder": "none"})) for r in suite.rows)
    )
    folder, told = make_samples(train=4, val=2), list[str]()
    alone, beside = (
        CompareOptions(
            folder, tmp_path / f"{n}", seeds=(0,), epochs=1, cache=tmp_path / "features", workers=n
        )
        for n in (1, 2)
    )
    torch.set_num_threads(2)
    one, other = results_of(blind, alone), results_of(blind, beside, Telling(note=told.append))
    assert torch.get_num_threads() == 2
    timeless = {"peak_mib": None, "samples_per_s": None, "seconds_per_epoch": None}
    assert [replace(r, **timeless) for r in other] == [replace(r, **timeless) for r in one]
    assert [line.split(":")[0] for line in told] == [f"{r.label}, seed {r.seed}" for r in one]
    broken = replace(blind, rows=(replace(blind.rows[1], small={"arguments": {"colour": 1}}),))
    with pytest.raises(ConfigError, match="colour: unknown key"):
        results_of(broken, beside)


def test_as_many_runs_as_cores_and_gpus_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert (fitting_workers("cuda"), fitting_workers("cuda:1")) == (4, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    pages = {"SC_AVPHYS_PAGES": 5 * 2**20, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert fitting_workers("cpu") == 5
    pages["SC_AVPHYS_PAGES"] = 2**20 // 8
    assert fitting_workers("cpu") == 1
