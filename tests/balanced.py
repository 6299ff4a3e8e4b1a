"""Whether a camera's counts of its pairs add up."""

from __future__ import annotations

from daemon.threads.counters import PairCounts


def balanced(counts: PairCounts) -> bool:
    """True where nothing is lost and nothing counted twice."""
    done = counts.published + counts.suppressed.total() + counts.dropped.total()
    return counts.waiting >= 0 and counts.proposed == counts.waiting + done
