"""Narrations for processes of their own, which the real class would keep waiting for torch."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace


def narration(second, camera="yard"):
    """What a journal asks of a narration."""
    time = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=second)
    stamp = SimpleNamespace(time=time, pts=0, sha256="a" * 64)
    nothing = ("box", "before", "after", "moment_s", "since_s", "until_s", "duration_s", "same_as")
    sentence = SimpleNamespace(
        text="A car has left.",
        type="disappeared",
        object="car",
        salience=1,
        confidence=1,
        count=1,
        outline_before=(),
        outline_after=(),
        paths=(),
        action="",
        track="",
        since_known=True,
        **dict.fromkeys(nothing),
    )
    return SimpleNamespace(
        id=f"{camera}-{second}",
        camera=camera,
        before=stamp,
        after=stamp,
        clock=SimpleNamespace(value="file"),
        event=SimpleNamespace(value="none"),
        sentences=[sentence],
        text=sentence.text,
        l2=1,
        model=SimpleNamespace(name="ddla", sha256="c" * 64),
        settings_sha256="d" * 64,
        abstained="",
        fallback="",
        counts=(),
        **dict.fromkeys(("until", "since", "deletion", "rule", "rate_hz")),
        **dict.fromkeys(("held", "continues", "covers", "reason", "state_sha256"), ""),
    )
