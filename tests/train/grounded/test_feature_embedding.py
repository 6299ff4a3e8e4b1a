"""Pairs of observations say what is known and no more; the embedding learns from them, and resumes."""

import math

import pytest
import torch

from models.families import first_of
from models.grounded.observations import FEATURES
from train.checkpoints import TrainError
from train.grounded.feature_embedding import (
    OTHER,
    SAME,
    UNKNOWN,
    CameraSnapshots,
    Example,
    _batch,
    relations,
    train_feature_embedding,
)
from train.grounded.identities import FALSE_POSITIVE, UNSURE, UNTRACKED, Snapshot
from train.grounded.stages import StageOptions

Box = tuple[float, float, float, float]
HERE, THERE, YONDER = (0.1, 0.1, 0.1, 0.1), (0.4, 0.4, 0.1, 0.1), (0.7, 0.7, 0.1, 0.1)


def snapshot(
    occasion: str,
    seconds: float,
    who: list[tuple[int, Box]],
    seen: dict[int, tuple[float, float]] | None = None,
    clock_s: float = math.nan,
) -> Snapshot:
    """Observations whose features tell who they are."""
    track = torch.tensor([number for number, _ in who])
    feature = torch.stack(
        [torch.randn(FEATURES, generator=torch.Generator().manual_seed(n + 9)) for n, _ in who]
    )
    box = torch.tensor([place for _, place in who])
    span = torch.tensor([(seen or {}).get(number, (0.0, 9.0)) for number, _ in who])
    family = torch.full((len(who),), first_of("vehicle"))
    nobody = torch.full((len(who), 1), torch.nan)
    return Snapshot(occasion, seconds, clock_s, box, family, feature, track, span, nobody)


def test_tracks_tell_the_same_from_others():
    a = snapshot("clip", 0.0, [(0, HERE), (1, THERE), (2, YONDER)], {2: (0.0, 1.0)})
    b = snapshot("clip", 5.0, [(0, THERE), (3, YONDER), (UNTRACKED, HERE)], {3: (4.0, 9.0)})
    assert relations(a, b, flowing=False).tolist() == [
        [SAME, OTHER, OTHER],
        [OTHER, OTHER, UNKNOWN],  # track 1 met 3, but who is not tracked may be 1 all the same
        [OTHER, UNKNOWN, UNKNOWN],  # 2 was lost before 3 came: nobody knows
    ]


def test_a_part_of_an_object_is_not_another_one():
    part = (0.4, 0.4, 0.1, 0.05)
    a = snapshot("clip", 0.0, [(0, HERE)])
    b = snapshot("clip", 5.0, [(0, THERE), (UNTRACKED, part), (UNTRACKED, YONDER)])
    assert relations(a, b, flowing=False).tolist() == [[SAME, UNKNOWN, OTHER]]


def test_false_positives_are_nobody():
    a = snapshot("clip", 0.0, [(FALSE_POSITIVE, HERE), (UNSURE, THERE)])
    b = snapshot("clip", 5.0, [(UNTRACKED, HERE), (FALSE_POSITIVE, HERE), (FALSE_POSITIVE, THERE)])
    assert relations(a, b, flowing=False).tolist() == [[OTHER, UNKNOWN, OTHER], [UNKNOWN, OTHER, UNKNOWN]]


def test_other_occasions_tell_strangers_only():
    observed = [(UNTRACKED, HERE), (UNTRACKED, THERE)]
    now, soon = snapshot("a", 0, observed, clock_s=0), snapshot("b", 0, observed, clock_s=60)
    late, unknown = snapshot("c", 0, observed, clock_s=7200), snapshot("d", 0, observed)
    apart = [[UNKNOWN, OTHER], [OTHER, UNKNOWN]]
    assert relations(now, late, flowing=False).tolist() == apart, (
        "who stands in the same place may be the same"
    )
    assert relations(now, unknown, flowing=True).tolist() == apart
    for other in (soon, unknown):
        assert relations(now, other, flowing=False).eq(UNKNOWN).all()


def a_camera(name: str = "yard") -> CameraSnapshots:
    """Cars that go from place to place."""
    places = (HERE, THERE, YONDER, (0.1, 0.7, 0.1, 0.1), (0.7, 0.1, 0.1, 0.1))
    clip = [snapshot("clip", float(t), [(n, places[(n + t) % 5]) for n in range(4)]) for t in range(5)]
    return CameraSnapshots(name, clip, flowing=False)


def test_cameras_that_teach_nothing_are_told_of(monkeypatch):
    monkeypatch.setattr("train.grounded.feature_embedding._PATIENCE", 5)
    snapshots = [snapshot("a", seconds, [(UNTRACKED, HERE)]) for seconds in (0.0, 1.0)]
    idle = CameraSnapshots("yard", snapshots, flowing=False)
    with pytest.raises(TrainError, match="nothing to learn"):
        train_feature_embedding([idle], StageOptions(steps=1, batch=2))


def test_it_learns_and_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("train.grounded.feature_embedding._SAVE_EVERY", 30)
    options = StageOptions(steps=50, batch=6, seed=1)
    cameras = [a_camera()]
    whole = train_feature_embedding(cameras, options, tmp_path / "a.state")
    assert not (tmp_path / "a.state").exists()

    def until_noon(cameras: list[CameraSnapshots], options: StageOptions, step: int) -> Example:
        if step >= 35:
            raise KeyboardInterrupt
        return _batch(cameras, options, step)

    with monkeypatch.context() as patch:
        patch.setattr("train.grounded.feature_embedding._batch", until_noon)
        with pytest.raises(KeyboardInterrupt):
            train_feature_embedding(cameras, options, tmp_path / "b.state")
    assert torch.load(tmp_path / "b.state", weights_only=True)["step"] == 30
    again = train_feature_embedding(cameras, options, tmp_path / "b.state")
    assert all(torch.equal(p, q) for p, q in zip(whole.parameters(), again.parameters(), strict=True))
    a, b = cameras[0].occasions["clip"][:2]
    with torch.inference_mode():
        cosine = whole(a.feature) @ whole(b.feature).T
    known = relations(a, b, flowing=False)
    assert cosine[known == SAME].min() > cosine[known == OTHER].max(), "it tells the same from others"
