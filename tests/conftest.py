"""What every test may ask for, and what no test may do."""

import gc
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from beside import beside
from hypothesis import HealthCheck, settings
from rtsp_camera import RtspServer, no_gstreamer

# Before torch is imported, here and in every process that a test starts: tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Hardly anything that is made while tests are collected is garbage: to look for it takes half of that time.
gc.disable()

# How fast examples are drawn tells of the machine's load, not of the code.
settings.register_profile(
    "calm", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("calm")


def pytest_sessionstart() -> None:
    """Compile the kernels before the first test: half a minute that no test's own limits should meet."""
    from kernels import compile_kernels  # after pytest has put this folder on the path

    compile_kernels()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on the collector works, and looks only at what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def clips() -> Path:
    """Folder of the real clips."""
    return beside("data/clips")


@pytest.fixture(scope="session")
def bench() -> Path:
    """Folder of the narration benchmark."""
    return beside("bench")


@pytest.fixture
def rtsp_server() -> Iterator[Callable[..., RtspServer]]:
    """Starts cameras, and kills them after the test: `RtspServer`; skips it without GStreamer."""
    if reason := no_gstreamer():
        pytest.skip(reason)
    with ExitStack() as ended:

        def start(*credentials: str, port: int = 0) -> RtspServer:
            camera = RtspServer(*credentials, port=port)
            ended.callback(camera.kill)
            return camera

        yield start


@pytest.fixture(autouse=True)
def no_logged_errors(caplog, request) -> Iterator[None]:
    """An unexpected logged error fails the test; ``@pytest.mark.logs_errors`` says that they are expected."""
    yield
    if request.node.get_closest_marker("logs_errors"):
        return
    errors = [r for when in ("setup", "call") for r in caplog.get_records(when) if r.levelno >= logging.ERROR]
    if errors:
        pytest.fail("logged: " + "; ".join(r.getMessage() for r in errors))
