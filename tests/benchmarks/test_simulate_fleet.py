"""The fleet on paper: nothing is lost in it, and where the answer is known it gives that."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "simulate_fleet.py"


@pytest.fixture(scope="module")
def fleet() -> Any:
    spec = importlib.util.spec_from_file_location("simulate_fleet", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate_fleet"] = module
    spec.loader.exec_module(module)
    return module


def test_arrivals_are_the_seed_s(fleet: Any) -> None:
    kinds = fleet.fleet(200, 3)
    coming = fleet.arrivals(kinds, 60.0, 3)
    assert coming == fleet.arrivals(fleet.fleet(200, 3), 60.0, 3)
    assert coming != fleet.arrivals(kinds, 60.0, 4)
    assert coming == sorted(coming)
    assert len(coming) > len(kinds) * 5
    assert len(fleet.arrivals(kinds, 30.0, 3, 2.0)) == pytest.approx(len(coming), rel=0.1)


def test_where_nothing_waits_a_pair_takes_its_steps(fleet: Any) -> None:
    costs = fleet.Costs()
    coming = [(10.0 * n, n % 3, 6) for n in range(20)]
    steps = (
        costs.edge_pair
        + 6 * costs.edge_picture
        + costs.server_pair
        + 1.5 * costs.server_mb
        + 6 * costs.picture
    )
    out = fleet.simulate(coming, 2, costs)
    assert out.waits == [pytest.approx(steps)] * 20
    assert (max(out.queue), out.late) == (1, 0.0)


def test_a_queue_with_known_waits(fleet: Any) -> None:
    """Ten at once, two workers, a second each: five rounds; in batches of five one."""
    alone = fleet.Costs(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1, 0.0)
    together = fleet.Costs(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 5, 0.0)
    coming = [(0.0, n, 1) for n in range(10)]
    assert sorted(fleet.simulate(coming, 2, alone).waits) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert fleet.simulate(coming, 2, together).waits == [1] * 10
    assert fleet.simulate(coming, 2, alone).busy == 1.0


def test_beyond_what_the_workers_can_do_waits_grow_and_pairs_are_late(fleet: Any) -> None:
    costs = fleet.Costs(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1, 0.0)
    coming = [(0.5 * n, n, 1) for n in range(100)]
    out = fleet.simulate(coming, 1, costs)
    assert len(out.waits) == 100
    assert out.waits == sorted(out.waits)
    assert out.late == pytest.approx(0.41, abs=0.02)
