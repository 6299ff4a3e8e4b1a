"""SIGHUP under load: cameras come and go while the narrator is busy with them; nothing is lost or ended."""

from pathlib import Path
from threading import Event, Timer

import pytest
from daemon_here import operated, running, until
from waiting import LIMIT_S

from daemon.config.configuration import load_configuration
from daemon.service import daemon as module
from daemon.service.daemon import Daemon
from daemon.threads.publication import Publishing
from daemon.threads.retention import Retention
from pipeline.journal import Journal, read_journal
from pipeline.journal.verification import verify
from pipeline.publisher import subscribe

TIMES = 3
NAMES = ("busy", "open")


def reload(daemon: Daemon, config: Path, text: str) -> None:
    """Have the daemon take a changed file over."""
    taken = daemon.reloads["taken"]
    config.write_text(text)
    daemon.signals.reload.set()
    until(daemon, lambda: daemon.reloads["taken"] > taken)


def in_force(daemon: Daemon) -> bool:
    """True once every camera runs by its plan in the file."""
    plans = daemon.cameras._plans
    return all(thread.plan is plans[name] for name, thread in daemon.cameras.threads.items())


def test_removals_of_busy_cameras_end_nothing_and_lose_nothing(
    configure, busy_clip, tmp_path, server, monkeypatch
):
    """Two cameras leave and come back while their frames and pairs are narrated."""
    monkeypatch.setattr(module, "_TURN_S", 0.005)
    pairs = "pairs: {lower: 20, upper: 250}, evidence: {keep: none}"
    more = f"url: {busy_clip}, {pairs}, narrate: {{cooldown: 0s, max_per_hour: null}}"
    busy = "".join(f"  {name}: {{{more}}}\n" for name in NAMES)
    away = configure(redis=server.url).read_text()
    config = configure(busy, redis=server.url)
    whole = config.read_text()

    def proposes(daemon: Daemon) -> None:
        threads = [daemon.cameras.threads[name] for name in NAMES]
        until(daemon, lambda: all(thread.read_s > 6 for thread in threads))

    def operate(daemon: Daemon) -> None:
        for k in range(TIMES):
            proposes(daemon)
            reload(daemon, config, away)
            if k:  # at first it is back before it has quite gone
                until(daemon, lambda: set(daemon.journals) == {"away"})
            if k < TIMES - 1:
                reload(daemon, config, whole)
                until(daemon, lambda: in_force(daemon))

    with running(config) as daemon:
        operated(daemon, lambda: operate(daemon))
    for name in NAMES:
        assert (daemon.queue.counters.waiting()[name], daemon.queue.dropped[name]) == (0, 0)
        journalled = [*read_journal(tmp_path / "state" / "journal" / f"{name}.jsonl")]
        assert len(journalled) == len({record.id for record in journalled}) > 0  # footage is read many times
        stream = subscribe(server.url, [name], "0")
        assert [next(stream).id for _ in journalled] == [record.id for record in journalled]
        stream.close()
    assert verify([tmp_path / "state" / "journal"]).ok


def test_a_camera_that_comes_and_goes_while_the_narrator_is_busy_keeps_its_journal(configure, clip):
    config, free = configure(f"  room: {{url: {clip}}}\n"), Event()
    whole = config.read_text()
    away = configure().read_text()

    def operate(daemon: Daemon) -> None:
        daemon.queue.put_change("away", lambda _: free.wait(LIMIT_S) and None)
        try:
            reload(daemon, config, whole)
            reload(daemon, config, away)
            until(daemon, lambda: "room" not in daemon.cameras.threads)
            reload(daemon, config, away)  # a turn of the main loop later
            assert "room" in daemon.journals
        finally:
            free.set()
        until(daemon, lambda: set(daemon.journals) == {"away"})

    with running(config) as daemon:
        operated(daemon, lambda: operate(daemon))


@pytest.mark.logs_errors
def test_a_refused_reload_names_the_camera_whose_secret_is_absent(configure, caplog):
    with running(configure()) as daemon:
        config = configure("  first: {url: 'rtsp://${env:ABSENT_SECRET}@127.0.0.1:9/s'}\n")
        daemon.reload()
        assert daemon.reloads == {"taken": 0, "refused": 1}
    assert f"{config}: cameras.first.url: the secret ${{env:ABSENT_SECRET}} is absent" in caplog.text


@pytest.mark.logs_errors
def test_a_refused_reload_leaves_no_journal_open(configure, tmp_path):
    folder = tmp_path / "state" / "journal"
    with running(configure()) as daemon:
        configure("  first: {url: 'rtsp://127.0.0.1:9/s'}\n  second: {url: 'rtsp://127.0.0.1:9/s'}\n")
        with Journal(folder, "second"):
            daemon.reload()
        assert daemon.reloads == {"taken": 0, "refused": 1}
        assert set(daemon.journals) == {"away"}
        Journal(folder, "first").close()  # nobody has locked it
        daemon.reload()
        assert daemon.reloads == {"taken": 1, "refused": 1}
        assert set(daemon.journals) == {"away", "first", "second"}


@pytest.mark.logs_errors
def test_a_bug_in_reading_the_file_ends_nothing(configure, monkeypatch, caplog):
    with running(configure()) as daemon:
        monkeypatch.setattr(module, "check_configuration", lambda *_: 1 / 0)
        daemon.reload()
        assert daemon.reloads == {"taken": 0, "refused": 1}
    assert "ZeroDivisionError" in caplog.text


def test_a_bug_in_any_loop_ends_the_daemon(configure, monkeypatch):
    def broken(_: Retention) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Retention, "run", broken)
    with running(configure()) as daemon:
        end = Timer(LIMIT_S, daemon.signals.stop.set)  # where it does not
        end.start()
        with pytest.raises(ZeroDivisionError, match="a bug"):
            daemon.main_loop()
        end.cancel()
        each = (daemon.publishing, daemon.retention, daemon.signing, daemon.narrating)
        assert daemon.loops == [one.loop for one in each]


def test_a_bug_in_the_end_itself_is_told(configure, monkeypatch):
    def broken(_: Publishing) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Publishing, "_release", broken)
    monkeypatch.setattr(Daemon, "main_loop", lambda _: None)
    config = configure()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        module.run(config, load_configuration(config))
