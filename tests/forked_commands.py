"""Commands in processes of their own that need not import torch and numba anew: forked from one that has.

That one is shared by all that run tests side by side; it ends with the last of them.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fcntl import LOCK_EX, flock
from functools import cache
from importlib import import_module
from pathlib import Path


class Forked:
    """A process as `subprocess.Popen` shows one; what it writes goes to files."""

    def __init__(self, status: socket.socket, files: Sequence[Path]) -> None:
        self._status, self._files = status, files
        self._said = status.makefile("r")
        self.pid = int(self._said.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, minus the signal where one ended it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("narrated", timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._said.readline()))
            self._said.close()
            self._status.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> list[str]:
        """What it wrote to standard output and standard error, once it has ended."""
        self.wait(timeout)
        return [file.read_text() for file in self._files]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """A connection to a process that has imported what `narrated run` imports, and forks."""

    def __init__(self, path: Path) -> None:
        """Connect to the one that listens at `path`; the first who comes starts it."""
        self._asks = socket.socket(socket.AF_UNIX)
        self._process: subprocess.Popen[bytes] | None = None
        with path.with_suffix(".lock").open("w") as lock:
            flock(lock, LOCK_EX)
            try:
                self._asks.connect(str(path))
            except OSError:
                path.unlink(missing_ok=True)
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(str(path))
                    listener.listen()
                    self._asks.connect(str(path))
                    command = [sys.executable, __file__, str(listener.fileno())]
                    self._process = subprocess.Popen(command, pass_fds=[listener.fileno()])

    def start(
        self,
        words: Sequence[object],
        folder: Path,
        *,
        into: int = -1,
        out: int = -1,
        err: int = -1,
        first: str = "",
        **environment: str,
    ) -> Forked:
        """Run `narrated`.

        Args:
            words: of the command line.
            folder: takes what is written, unless there are descriptors for it.
            into: descriptor of standard input.
            out: descriptor of standard output.
            err: descriptor of standard error.
            first: what the process does before, as Python.
            environment: beside this process's.
        """
        number = len(list(folder.glob("forked*.out")))
        paths = [folder / f"forked{number}.{end}" for end in ("out", "err")]
        for path in paths:
            path.touch()
        files = [path.open("r+") for path in (Path(os.devnull), *paths)]
        given = zip((into, out, err), files, strict=True)
        fds = [file.fileno() if fd < 0 else fd for fd, file in given]
        status, theirs = socket.socketpair()
        asked = json.dumps([[str(word) for word in words], {**os.environ, **environment}, first]).encode()
        socket.send_fds(self._asks, [len(asked).to_bytes(4)], [theirs.fileno(), *fds])
        self._asks.sendall(asked)
        for each in (theirs, *files):
            each.close()
        return Forked(status, paths)

    def close(self) -> None:
        self._asks.close()
        if self._process is not None:
            self._process.wait()


@cache
def forker() -> Forker:
    """The one of this process."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    made = Forker(Path(tempfile.gettempdir(), f"narrated-forker-{session}"))
    atexit.register(made.close)
    return made


def _requests(listener: socket.socket, connected: set[socket.socket]) -> Iterator[tuple[list[int], bytes]]:
    """What is asked for, with its descriptors, until nobody is connected any more."""
    connected.add(listener.accept()[0])
    while connected:
        asks, *_ = select.select([*connected, listener], [], [])[0]
        if asks is listener:
            connected.add(listener.accept()[0])
            continue
        size, fds, _, _ = socket.recv_fds(asks, 4, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if size:
            yield fds, asks.recv(int.from_bytes(size), socket.MSG_WAITALL)
        else:
            connected.remove(asks)


def _asked(listener: socket.socket) -> list[str]:
    """Forks for each request; returns in every child, with the words that it is asked to run."""
    connected: set[socket.socket] = set()
    for fds, request in _requests(listener, connected):
        words, environment, first = json.loads(request)
        if os.fork():
            for fd in fds:
                os.close(fd)
        elif child := os.fork():  # one process stands by, and says how the other ended
            os.write(fds[0], f"{child}\n".encode())
            os.write(fds[0], f"{os.waitpid(child, 0)[1]}\n".encode())
            os._exit(0)
        else:
            for source, target in zip(fds[1:], (0, 1, 2), strict=True):
                os.dup2(source, target)
            for fd in (*fds, listener.detach(), *(each.detach() for each in connected)):
                os.close(fd)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # one of the background ignores it
            os.environ.clear()
            os.environ.update(environment)
            exec(first, {})  # noqa: S102 - a test's own
            return words
    path = Path(listener.getsockname())
    for each in (path, path.with_suffix(".lock")):
        each.unlink(missing_ok=True)
    os._exit(0)


if __name__ == "__main__":
    gc.disable()  # until all is loaded, which stays
    import cv2
    from kernels import compile_kernels

    from daemon.cli import main

    for needed in (
        *(
            "daemon.service.daemon",
            "daemon.threads.narrator",
            "daemon.commands.replay",
            "daemon.serve.server",
        ),
        *("models.grounded.grounded", "models.papers.ddla", "daemon.commands.serve"),
    ):
        import_module(needed)
    cv2.setNumThreads(1)  # no process that has threads may be forked
    compile_kernels()
    cv2.setNumThreads(-1)
    gc.freeze()
    gc.enable()
    code = main(_asked(socket.socket(fileno=int(sys.argv[1]))))
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take down what was imported for all takes longer than most of what they do
