"""A house whose page is served once for all tests of a file."""

from collections.abc import Iterator

import pytest
from houses import House, said
from serving_here import Served


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    """Two cameras on two days."""
    made = House(tmp_path_factory.mktemp("house") / "state")
    made.tell(100, said("A person has arrived at the entrance."), evidence=made.pictures())
    made.tell(200, said("The person at the entrance has left.", "disappeared"), evidence=made.pictures())
    dog = said("A dog has come.", thing="dog", confidence=0.55)
    made.tell(300, said("A red car has parked in the lot.", thing="car"), dog, evidence=made.pictures(5))
    made.tell(86_400 + 50, said("A lorry has parked in the lot.", thing="truck"), camera="gate.2_-x")
    made.tell(86_400 + 60, said("A person has come <b>&amp;</b>."), camera="gate.2_-x")
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(house) -> Iterator[Served]:
    with Served(house) as running:
        yield running
