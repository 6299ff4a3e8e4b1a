"""A writer that is killed again and again while it journals and publishes; a process of its own.

Arguments: folder of the journal, URL of the server, times to be killed, seed. Each life appends and publishes
in two threads, in small segments, until SIGKILL comes: to half of them while they open the journal, when
a torn line is cut off, to the others after as many records as chance has it. Prints how many lives,
how many records they appended, and how many the last one found.
"""

import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from narrations import narration

from pipeline.journal import Journal, SegmentLimits
from pipeline.publisher import Delivery, Publisher

LIMITS = SegmentLimits(bytes=20_000)


def live(folder: Path, url: str, alive: int) -> None:
    """Append, report each record to the pipe, and publish, until the process is killed."""
    stop, more = threading.Event(), threading.Event()
    with Journal(folder, "yard", fsync=False, limits=LIMITS) as journal:
        delivery = Delivery(journal, Publisher(url))

        def publish() -> None:
            while True:
                delivery.drain(stop)
                more.wait(0.001)
                more.clear()

        threading.Thread(target=publish, daemon=True).start()
        while True:
            journal.append(narration(journal.end.seq))
            os.write(alive, b"+")
            more.set()
            if journal.end.seq % 7 == 0:
                time.sleep(0.0005)


def main() -> None:
    """Live and die."""
    folder, url, times, chance = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), random.Random(sys.argv[4])
    appended = 0
    for _ in range(times):
        reading, alive = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                live(folder, url, alive)
            except BaseException:  # noqa: BLE001 - of whatever kind, it ends this process
                traceback.print_exc()
            os._exit(9)
        os.close(alive)
        for _ in range(chance.choice((0, chance.randrange(1, 24)))):
            appended += len(os.read(reading, 1))
        time.sleep(chance.uniform(0, 0.004))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as rest:
            appended += len(rest.read())
        if not os.WIFSIGNALED(status):
            sys.exit("a life ended by itself")
    with Journal(folder, "yard", limits=LIMITS) as journal:
        delivery = Delivery(journal, Publisher(url))
        delivery.drain(threading.Event())
        sys.stdout.write(f"{times} {appended} {journal.end.seq}\n")


if __name__ == "__main__":
    main()
