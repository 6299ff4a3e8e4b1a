"""Overload is logged once."""

from daemon.threads.overload import STEADY_S, TOO_SLOW_S, Overload


def test_overload_is_logged_once(caplog):
    now = 1000.0
    overload = Overload(lambda: now)

    def watch(seconds: float, waited_s: float) -> None:
        nonlocal now
        for _ in range(round(seconds)):
            now += 1
            overload.update(waited_s, 4)

    watch(100, TOO_SLOW_S)
    assert not overload.now
    for _ in range(5):  # it comes and goes
        watch(100, 25)
        watch(STEADY_S / 2, 0)
    assert len(caplog.records) == 1
    assert "too slow for its cameras (4): pairs wait 25 s" in caplog.text
    assert overload.now
    watch(STEADY_S + 1, 0)
    assert not overload.now
    assert len(caplog.records) == 2
    assert "keeps up with its cameras again" in caplog.text
