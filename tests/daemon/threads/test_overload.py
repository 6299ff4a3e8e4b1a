"""Overload is logged once, and not as so many wrong clocks."""

from __future__ import annotations

import pytest

from daemon.threads.overload import STEADY_S, TOO_SLOW_S, Overload

RIGHT, BEHIND, FAR_AHEAD = -0.1, -3.0, 3600.0


class Watched:
    """Overload under a clock of its own, for so long as said."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.overload = Overload(lambda: self.clock)

    def __call__(self, seconds: float, waited_s: float, *skews: float | None) -> None:
        for _ in range(round(seconds)):
            self.clock += 1
            self.overload.update(waited_s, len(skews), {f"cam{n}": skew for n, skew in enumerate(skews)})


def test_overload_is_logged_once_and_no_clock_is_blamed_for_it(caplog: pytest.LogCaptureFixture) -> None:
    watch = Watched()
    watch(100, TOO_SLOW_S, RIGHT, RIGHT, RIGHT, RIGHT)
    assert not watch.overload.now
    for _ in range(5):  # it comes and goes
        watch(100, 25, BEHIND, BEHIND, BEHIND, RIGHT)
        watch(STEADY_S / 2, 0, BEHIND, BEHIND, BEHIND, RIGHT)
    assert len(caplog.records) == 1
    assert "too slow for its cameras (4): pairs wait 25 s" in caplog.text
    assert watch.overload.now
    watch(STEADY_S + 1, 0, RIGHT, RIGHT, RIGHT, RIGHT)
    assert not watch.overload.now
    assert len(caplog.records) == 2
    assert "keeps up with its cameras again" in caplog.text


def test_a_wrong_clock_is_logged_once_until_it_is_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watched()
    for _ in range(3):  # a jam
        watch(STEADY_S / 2, 0, BEHIND, RIGHT)
        watch(2, 0, RIGHT, RIGHT)
    assert not caplog.records
    for away in (None, BEHIND, -1.5):
        watch(2 * STEADY_S, 0, BEHIND, FAR_AHEAD)
        watch(5, 0, away, FAR_AHEAD)
    first, second = (record.message for record in caplog.records)
    assert first.startswith("cam0: the camera's clock less this machine's is -3.0 s; its times are used")
    assert second.startswith("cam1: the camera's clock less this machine's is +3600.0 s; times of receipt")
    watch(2, 0, RIGHT, FAR_AHEAD)
    watch(2 * STEADY_S, 0, BEHIND, FAR_AHEAD)
    assert len(caplog.records) == 3
