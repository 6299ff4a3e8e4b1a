"""`narrated-train compare` on the toy samples: what is trained, what is kept, what is gone on with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from train.checkpoints import TrainError
from train.papers import comparison
from train.papers.comparison import CompareOptions, compare, row_config, run_row
from train.papers.config import load_config
from train.papers.suites import SUITES, Suite, load_suite, merge
from train.papers.training import Listeners, state_path

pytestmark = pytest.mark.usefixtures("no_java")
CONFIGS = Path(__file__).parents[3] / "configs" / "train"
EVERY = {"single_images": Path("cub"), "classes": Path("nabirds")}
AS_IN_FILE = {
    "spot-the-diff": {"nn": "nn", "ddla": "ddla"},
    "clevr-change": {"duda": "duda", "duda-joint": "duda-joint"},
    "idc-pcl": {"fda": "idc-pcl"},
    "spot-it": {"augmented": "spot-it"},
    "birds-to-words": {"both": "idc-pcl-birds"},
}


@pytest.fixture
def options(sample_folder, tmp_path, toy_encoder, monkeypatch) -> CompareOptions:
    """NN, CAPT and DDLA of the Spot-the-diff suite with the toy encoder, small enough for a test."""
    tiny = {"encoder": "toy", "changes": {"eps": 3.0}, "training": {"epochs": 2, "batch": 12}}
    sizes = {"arguments": {"features": 12, "words": 12, "hidden": 16, "attention": 8}}
    suite = load_suite("spot-the-diff")
    systems = {
        key: system.model_copy(
            update={"small": merge(system.small, tiny if key == "nn" else merge(tiny, sizes))}
        )
        for key, system in suite.systems.items()
        if key in ("nn", "capt", "ddla")
    }
    toy: Suite = suite.model_copy(update={"systems": systems, "seeds": 2})
    monkeypatch.setattr(comparison, "load_suite", lambda _name: toy)
    comparison._encoder.cache_clear()
    comparison._load.cache_clear()
    return CompareOptions("spot-the-diff", sample_folder, tmp_path / "out")


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("size", ["small", "full"])
def test_every_row_has_a_valid_configuration(name, size):
    chosen = CompareOptions(name, Path("pairs"), Path("out"), size=size, folders=EVERY)  # type: ignore[arg-type]
    for system in load_suite(name).systems.values():
        config = row_config(system, chosen, seed=2)
        assert config.training.seed == config.pretrain_options().seed == 2


@pytest.mark.parametrize("name", SUITES)
def test_tables_and_claims_name_rows_and_columns_that_exist(name):
    suite = load_suite(name)
    for table in suite.tables:
        assert suite.systems.keys() >= table.rows.keys()
        assert all(len(figures) in (0, len(table.columns)) for figures in table.rows.values())
        assert all(table.value(column) for column in table.columns)
    for claim in suite.claims:
        assert {claim.better, claim.worse, claim.printed or claim.worse} <= suite.systems.keys()


@pytest.mark.parametrize("name", AS_IN_FILE)
def test_the_full_size_is_that_of_the_configuration_files(name):
    chosen = CompareOptions(name, Path("pairs"), Path("out"), size="full", folders=EVERY)
    for key, file in AS_IN_FILE[name].items():
        ours = row_config(load_suite(name).systems[key], chosen, 0).model_dump()
        theirs = load_config(CONFIGS / f"{file}.yaml", seed=0).model_dump()
        for section in ("captioner", "encoder", "changes", "training"):
            assert ours[section] == theirs[section], (key, section)
        given = yaml.safe_load((CONFIGS / f"{file}.yaml").read_text()).get("arguments", {})
        assert given.items() >= {k: v for k, v in ours["arguments"].items() if k != "seed"}.items()


def test_a_comparison_is_written_and_a_finished_run_is_not_trained_again(options, monkeypatch):
    notes: list[str] = []
    report = compare(options, Listeners(note=notes.append))
    assert [(r.row, r.seed) for r in report.results] == [
        (k, s) for s in (0, 1) for k in ("nn", "capt", "ddla")
    ]
    assert notes[0] == "6 runs: 3 systems, 2 seeds"
    assert "sentences said of 3" in notes[1]
    text = (options.out / "spot-the-diff.md").read_text()
    tables = [line for block in text.split("```")[1::2] for line in block.splitlines()]
    assert all(len(line) <= 80 for line in tables), max(tables, key=len)
    for part in ("  theirs", "best constant of train", "said", "DDLA above CAPT", "2 seeds"):
        assert part in text
    content = json.loads((options.out / "spot-the-diff.json").read_text())
    assert len(content["rows"]) == 6
    assert len(content["rows"][2]["single"]) == 3
    assert content["rows"][2]["ratios"]["truth.polarity"]
    assert {claim["text"] for claim in content["claims"]} >= {"DDLA above CAPT", "CAPT above NN"}
    assert not list(options.out.rglob("*.state"))

    monkeypatch.setattr(comparison, "train_on_splits", None)
    again = compare(options)
    assert [r.evaluation for r in again.results] == [r.evaluation for r in report.results]


def test_an_interrupted_run_goes_on(options, monkeypatch):
    whole = run_row(replace(options, out=options.out.with_name("whole")), "capt", 0)
    torch.manual_seed(5)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(comparison, "evaluate", stop)
        with pytest.raises(KeyboardInterrupt):
            run_row(options, "capt", 0)
    (checkpoint,) = options.out.rglob("model.safetensors")
    assert state_path(checkpoint).is_file()
    assert run_row(options, "capt", 0) == whole


def test_only_the_pairs_that_are_wanted_are_encoded(options, sample_folder, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(sample_folder, data, ignore=shutil.ignore_patterns(".features"))
    compare(replace(options, data=data, pairs=6, seeds=1, rows=("nn",)))
    assert len(list((data / ".features").glob("*.safetensors"))) == 6 + 9 + 3


def test_rows_are_chosen(options, monkeypatch):
    with pytest.raises(TrainError, match="has no row 'gpt'; there is nn, capt, ddla"):
        compare(replace(options, rows=("gpt",)))
    monkeypatch.undo()
    birds = CompareOptions("birds-to-words", Path("pairs"), Path("out"))
    notes: list[str] = []
    assert comparison._wanted_rows(birds, Listeners(note=notes.append)) == ["pairs"]
    assert notes[0].endswith("is left out: it needs --folder single_images=FOLDER")
    with pytest.raises(TrainError, match="row both of suite birds-to-words needs --folder single_images"):
        comparison._wanted_rows(replace(birds, rows=("both",)), Listeners())
