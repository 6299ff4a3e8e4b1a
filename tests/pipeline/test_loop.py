"""The one way in which a thread is run: it beats, it can be woken, and its error waits for main."""

import threading

import pytest

from pipeline.loop import Backoff, Heartbeats, Loop

SOON_S, NEVER_S = 60.0, 3600.0


def broken() -> None:
    raise ZeroDivisionError("a bug")


def test_it_turns_until_it_is_stopped_and_then_does_the_last_thing():
    done: list[str] = []
    turned = threading.Event()

    def turn() -> None:
        done.append("turn")
        turned.set()

    heartbeats = Heartbeats()
    loop = Loop("upkeep", turn, NEVER_S, heartbeats=heartbeats, last=lambda: done.append("last"))
    assert not loop.started
    loop.start()
    assert not turned.wait(0.05)  # it pauses first
    loop.wake()
    assert turned.wait(SOON_S)
    assert set(heartbeats.ages_s()) == {"upkeep"}
    loop.stop()
    assert loop.join(SOON_S)
    assert (done, loop.error, heartbeats.ages_s()) == (["turn", "last"], None, {})


def test_an_error_ends_it_waits_for_main_and_keeps_nothing_from_being_given_up():
    heartbeats, last = Heartbeats(), threading.Event()
    loop = Loop("upkeep", broken, heartbeats=heartbeats, last=last.set)
    loop.raise_error()
    loop.start()
    assert loop.join(SOON_S)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        loop.raise_error()
    assert last.is_set()
    assert heartbeats.ages_s() == {}


def test_one_that_never_turned_still_does_the_last_thing():
    last = threading.Event()
    loop = Loop("once", broken, last=last.set)
    loop.stop()
    loop.start()
    assert loop.join(SOON_S)
    assert last.is_set()
    assert loop.error is None


def test_a_pause_is_no_hang_and_a_turn_that_takes_too_long_is_one():
    now, began, go_on = 1000.0, threading.Event(), threading.Event()

    def turn() -> None:
        began.set()
        go_on.wait(SOON_S)

    heartbeats = Heartbeats(lambda: now)
    loop = Loop("upkeep", turn, NEVER_S, heartbeats=heartbeats, within_s=5.0)
    loop.start()
    while not heartbeats.ages_s():
        assert loop.alive
    now += 600
    assert not heartbeats.overdue()
    loop.wake()
    assert began.wait(SOON_S)
    now += 6
    assert heartbeats.overdue() == {"upkeep": 6}
    loop.beat(50.0)
    assert not heartbeats.overdue()
    loop.stop()
    go_on.set()
    assert loop.join(SOON_S)


@pytest.mark.parametrize("to_double", [1, 3])
def test_pauses_double_up_to_the_longest_and_start_over_after_an_answer(caplog, to_double):
    backoff = Backoff("yard", 1.0, 8.0, to_double=to_double)
    pauses = [backoff.next_s("refused") for _ in range(4 * to_double)][::to_double]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, (1, 2, 4, 8), strict=True))
    assert all(4 <= backoff.next_s("refused") <= 8 for _ in range(200))
    assert caplog.text.count("yard: refused; retrying") == 1
    backoff.next_s("silent")
    assert (backoff.reason, caplog.text.count("yard: silent; retrying")) == ("silent", 1)
    backoff.reset()
    assert (backoff.reason, caplog.text.count("yard: works again")) == ("", 1)
    assert backoff.next_s("refused") <= 1
