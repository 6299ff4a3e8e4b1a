"""Calibration of a confidence, and its measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STEPS = 1000
_FLAT = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Confidence against accuracy, in bins of equal width.

    Attributes:
        edges: float64 ``(bins + 1,)``, 0 to 1; bin m holds ``edges[m] < confidence <= edges[m + 1]``, the
            first one 0 as well.
        counts: int64 ``(bins,)``.
        confidence: float64 ``(bins,)``, the mean; NaN in an empty bin.
        accuracy: float64 ``(bins,)``, the share of right ones; NaN in an empty bin.
        ece: expected calibration error, 0..1: the mean over all samples of their bin's distance between
            confidence and accuracy; NaN without samples.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    ece: float


def reliability(confidence: ArrayLike, right: ArrayLike, bins: int = 10) -> Reliability:
    """Reliability diagram and expected calibration error (Guo et al. 2017, equations 2 and 3).

    Args:
        confidence: ``(N,)``, 0..1.
        right: bool ``(N,)``.
        bins: how many.

    Raises:
        ValueError: the lengths differ, or a confidence is not in 0..1.
    """
    sure, true = _check(confidence, right)
    if not bool(((sure >= 0) & (sure <= 1)).all()):
        raise ValueError("a confidence is a number from 0 to 1")
    number = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(number, minlength=bins)
    means = [
        np.divide(
            np.bincount(number, weights=values, minlength=bins),
            counts,
            out=np.full(bins, np.nan),
            where=counts > 0,
        )
        for values in (sure, true.astype(np.float64))
    ]
    gaps = np.abs(means[0] - means[1])
    ece = float(np.nansum(gaps * counts) / len(sure)) if len(sure) else float("nan")
    return Reliability(np.linspace(0, 1, bins + 1), counts, means[0], means[1], ece)


def logit(confidence: ArrayLike) -> NDArray[np.float64]:
    """Log odds of probabilities; those nearer than 1e-6 to 0 or 1 are taken as so near."""
    p = np.clip(np.asarray(confidence, np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)), np.float64)


def to_probabilities(scores: ArrayLike, slope: float, offset: float) -> NDArray[np.float64]:
    """Probabilities ``1 / (1 + exp(-(slope * score + offset)))``."""
    z = np.asarray(scores, np.float64) * slope + offset
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)), np.float64)


def fit_confidence(scores: ArrayLike, right: ArrayLike) -> tuple[float, float]:
    """Slope and offset that turn scores into probabilities of being right (Platt 1999).

    The targets are Platt's, drawn in from 0 and 1 so that separable scores have a finite slope; fitted by
    scikit-learn's logistic regression without regularisation.

    Args:
        scores: ``(N,)``, any finite numbers, such as logits.
        right: bool ``(N,)``.

    Returns:
        Slope and offset for `to_probabilities`. Where all scores are equal the slope is 0.

    Raises:
        ValueError: the lengths differ, there are none, or a score is not finite.
    """
    x, true = _check(scores, right)
    if not len(x) or not bool(np.isfinite(x).all()):
        raise ValueError("fitting confidence needs at least one score, and finite ones only")
    n_right = int(true.sum())
    target = np.where(true, (n_right + 1) / (n_right + 2), 1 / (len(x) - n_right + 2))
    centre, scale = float(x.mean()), float(x.std())
    standard = (x - centre) / scale if scale > _FLAT else np.zeros_like(x)
    slope, offset = _fit(standard, target)
    slope = slope / scale if scale > _FLAT else 0.0
    return slope, offset - slope * centre


def _fit(x: NDArray[np.float64], target: NDArray[np.float64]) -> tuple[float, float]:
    """Slope and offset of least cross entropy; a target between 0 and 1 is a row of either kind, weighted."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - only training has it

    rows, kind = np.concatenate([x, x])[:, None], np.repeat([True, False], len(x))
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=_STEPS)
    model.fit(rows, kind, sample_weight=np.concatenate([target, 1 - target]))
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def _check(values: ArrayLike, right: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    numbers, true = np.asarray(values, np.float64), np.asarray(right, np.bool_)
    if numbers.ndim != 1 or numbers.shape != true.shape:
        raise ValueError(
            f"{numbers.shape} confidences and {true.shape} verdicts: give one of each a sentence"
        )
    return numbers, true
