"""The proof that the captioner can work here: a process beside the daemon that loads it, tries it and ends.

A daemon before whose cameras nothing happens needs no captioner in its memory. READY must still mean that it
can narrate; and what compiles the kernels on a fresh machine should not hold the cameras up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


class CaptionerProofError(Exception):
    """The captioner cannot work here; the message says why, as the process did."""


class CaptionerProof:
    """Runs `narrated warm-up`."""

    def __init__(self, checkpoint: Path, device: str) -> None:
        # Its notices would be taken for the daemon's.
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        # -P: a folder called daemon in the working directory is not meant.
        command = [sys.executable, "-P", "-m", "daemon.cli", "warm-up", "--device", device]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, these arguments
            [*command, "--captioner-file", str(checkpoint)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def holds(self) -> bool:
        """Whether it has been shown by now.

        Raises:
            CaptionerProofError: it has been shown that it cannot.
        """
        code = self._process.poll()
        if code:
            said = self._process.stderr.read().strip() if self._process.stderr else ""
            lines = said.removeprefix("narrated: ").splitlines() or [f"`narrated warm-up` ended with {code}"]
            raise CaptionerProofError(f"the captioner does not work here: {lines[-1]}")
        return code == 0

    def stop(self) -> None:
        """End it if it still runs."""
        with self._process, suppress(ProcessLookupError):
            self._process.kill()
