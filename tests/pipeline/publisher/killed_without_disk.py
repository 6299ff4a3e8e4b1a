"""Writers that are killed while their disk takes nothing; run as a process without torch.

Arguments: folder of the journal, URL of the server, and what is wrong with the disk: ``limited`` (the
kernel's own limit on file sizes), ``full`` or ``read-only`` (a small disk is mounted at the folder, so that
needs root in a mount namespace of its own), and where the journal is copied to from such a disk. Each life
publishes what it tells and ends by SIGKILL. Prints how many records the last one found in the journal.
"""

import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from plain_narration import narration

from pipeline.journal import Journal
from pipeline.publisher import Delivery, open_publisher

BLOCK = 10
"""Records that may still find room in a block that was begun."""


class Disk:
    """Takes something, or nothing."""

    def __init__(self, folder: Path, wrong: str) -> None:
        self.folder, self.wrong, self.failing = folder, wrong, False
        if wrong != "limited":
            self._mount("-t", "tmpfs", "-o", "size=64k", "none")

    def fail(self) -> None:
        self.failing = True
        if self.wrong == "limited":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        elif self.wrong == "read-only":
            self._mount("-o", "remount,ro")
        else:
            with (self.folder / "filler").open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(512)):
                        pass
                except OSError:
                    pass

    def mend(self) -> None:
        if self.wrong == "read-only":
            self._mount("-o", "remount,rw")
        elif self.wrong == "full":
            (self.folder / "filler").unlink()

    def _mount(self, *options: str) -> None:
        subprocess.run(["mount", *options, self.folder], check=True)


def live(folder: Path, url: str, count: int, disk: Disk | None = None) -> int:
    """Tell and publish so much; how many records the journal holds in the end."""
    with Journal(folder / "journal", "yard", hold=1000) as journal:
        delivery = Delivery(journal, open_publisher(url))
        delivery.drain(threading.Event())
        if disk and not disk.failing:
            disk.fail()  # in the midst of a run
        for _ in range(count):
            journal.append(narration(journal.end.seq))
        delivery.drain(threading.Event())
        if disk:
            assert journal.held > count - BLOCK, journal.trouble
            os.kill(os.getpid(), signal.SIGKILL)
        assert not journal.held
        return len(list(journal))


def killed(folder: Path, url: str, count: int, disk: Disk) -> None:
    child = os.fork()
    if child == 0:
        try:
            if disk.failing:
                disk.fail()  # the kernel's limit is each process's own
            live(folder, url, count, disk)
        finally:
            os._exit(9)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        sys.exit("a life ended by itself")


def main() -> None:
    folder, url, wrong = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    logging.basicConfig(format="%(message)s")
    disk = Disk(folder, wrong)
    live(folder, url, 3)
    if wrong == "read-only":
        disk.fail()  # a disk on which a file is open does not become read-only
    killed(folder, url, 20, disk)
    disk.failing = True
    killed(folder, url, 30, disk)  # the disk still takes nothing: what is given back is held again
    disk.mend()
    sys.stdout.write(f"{live(folder, url, 2)}\n")
    if wrong != "limited":
        subprocess.run(["cp", "-r", folder / "journal", sys.argv[4]], check=True)  # the disk goes with us


if __name__ == "__main__":
    main()
