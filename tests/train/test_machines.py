"""What is shared out among the machines of a Ray cluster comes out as it does on one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the extra 'ray'")

from pipeline.machines import ClusterError, answer, connected, task
from train.compose.composition import _mapped
from train.papers import side_by_side
from train.papers.comparison import CompareOptions
from train.papers.results import Result
from train.papers.suites import SUITES, merged
from train.samples import SampleError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # as polite as the tests beside it, or it never ends
        with connected("local") as ray:
            yield ray


def folder_and(number: int) -> tuple[str, int]:
    if number < 0:
        raise SampleError(f"{number} is negative")
    return str(Path.cwd()), os.getpid()


def plus(first: int, second: int) -> int:
    return first + second


def test_a_task_runs_elsewhere_in_this_folder_and_raises_what_it_raises(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    do = task(ray, folder_and)
    where, process = answer(ray, do(1))
    assert where == str(tmp_path)
    assert process != os.getpid()
    with pytest.raises(SampleError, match="-1 is negative"):
        answer(ray, do(-1))
    assert answer(ray, task(ray, plus)(ray.put(1), task(ray, plus)(2, 3))) == 6


def test_samples_come_in_their_order(ray: Any) -> None:
    told = list[tuple[str, int, int]]()
    items = range(11)
    there, here = (
        list(_mapped(partial(plus, 100), items, 1, "pairs", lambda *t: told.append(t), ray=of))
        for of in (ray, None)
    )
    assert there == here == [100 + n for n in items]
    assert told[:12] == told[12:]


def test_rows_are_the_same_on_a_cluster(
    ray: Any, make_samples: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = SUITES["spot-the-diff"]()
    tiny = {"encoder": "none", "training": {"epochs": 1}}
    rows = [replace(r, small=merged(r.small, tiny)) for r in suite.rows if r.key in {"nn", "nn-multi"}]
    suite = replace(suite, rows=tuple(rows))
    monkeypatch.setattr(side_by_side, "connected", lambda _: nullcontext(ray))
    folder = make_samples(train=4, val=2)

    def results(name: str, **given: Any) -> list[Result]:
        options = CompareOptions(
            folder, tmp_path / name, seeds=(0, 1), epochs=1, cache=tmp_path / "c", **given
        )
        *_, (_, found) = side_by_side.compare_rows(suite, options)
        return [replace(r, peak_mib=None, samples_per_s=None, seconds_per_epoch=None) for r in found]

    assert results("there", ray="local") == results("here")


def test_no_cluster_there() -> None:
    with (
        pytest.raises(ClusterError, match=r"no Ray cluster answers at 127.0.0.1:1"),
        connected("127.0.0.1:1"),
    ):
        pass
