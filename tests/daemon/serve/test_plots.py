"""How many were there at the same time, against counting them one by one."""

from __future__ import annotations

import random

import pytest
from serving_here import MIDNIGHT

from daemon.questions.local_time import LocalTime, microseconds
from daemon.serve.plots import highest
from daemon.serve.review import day_bounds

PART_US, SECOND = 900_000_000, 1_000_000


@pytest.mark.parametrize("seed", range(50))
def test_the_most_in_each_part_of_a_day(seed: int) -> None:
    chance, first = random.Random(seed), microseconds(MIDNIGHT)
    stays = []
    for _ in range(chance.randrange(30)):
        begin = first + chance.randrange(-7200, 90_000, 300) * SECOND
        stays.append((begin, begin + chance.randrange(0, 20_000, 300) * SECOND))
    begin, end = day_bounds(MIDNIGHT.date(), LocalTime.named("UTC"))
    for part, most in enumerate(highest(stays, begin, end)):
        low, high = first + part * PART_US, first + (part + 1) * PART_US
        moments = [low, *(moment for stay in stays for moment in stay if low <= moment < high)]
        assert most == max(sum(a <= moment < b for a, b in stays) for moment in moments), part
