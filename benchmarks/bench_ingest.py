"""How soon is a camera back whose server was killed or froze?

    python benchmarks/bench_ingest.py [--away 0.5 2 5 20]

GStreamer's server is killed and started again after some absences, and frozen; times are to the next frame,
with settings as shipped. What a camera costs: bench_cameras.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from rtsp_camera import RtspServer

from pipeline.sources import ConnectionState, Source, SourceOptions, open_source


class Reader:
    """Reads a source in a thread and counts its frames."""

    def __init__(self, source: Source) -> None:
        self.count, self.source = 0, source
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for _ in self.source:
            self.count += 1

    def until(self, condition: Callable[[], bool]) -> float:
        """Seconds until a condition holds."""
        began = time.monotonic()
        while not condition():
            time.sleep(0.005)
        return time.monotonic() - began

    def next_frame(self) -> float:
        """Seconds until the next frame."""
        before = self.count
        return self.until(lambda: self.count > before)


def main() -> None:
    """Print times to the next frame after the server's return, and until a stall is noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--away", type=float, nargs="+", default=[0.5, 2.0, 5.0, 20.0], metavar="SECONDS")
    absences = parser.parse_args().away
    server = RtspServer()
    with open_source(server.url(), SourceOptions(sample_hz=15), "yard") as source:
        reader = Reader(source)
        print(f"first frame after {reader.next_frame():.2f} s")
        for away_s in absences:
            back = []
            for _ in range(1 if away_s > 5 else 3):
                server.kill()
                time.sleep(away_s)
                server.start()
                back.append(reader.next_frame())
                time.sleep(6)
            print(f"away for {away_s:g} s: next frame {statistics.median(back):.2f} s after its return")
        server.freeze()
        shown = reader.until(lambda: source.report.state is ConnectionState.STALLED)
        given_up = shown + reader.until(lambda: source.report.state is ConnectionState.BACKING_OFF)
        server.thaw()
        print(f"frozen: shown as stalled after {shown:.1f} s, given up after {given_up:.1f} s,", end=" ")
        print(f"next frame {reader.next_frame():.2f} s after it moves again")
    server.kill()


if __name__ == "__main__":
    main()
