"""No other distribution may own our generically named packages; the doctor asks the same."""

from __future__ import annotations

import importlib.metadata

import pytest

from daemon.tools.doctor import OWN_PACKAGES, foreign_owners


def test_the_four_names_are_ours_alone() -> None:
    assert foreign_owners() == {}


def test_another_owner_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {
        "daemon": ["narrated", "python-daemon"],
        "models": ["narrated"],
        "train": ["choochoo"],
        "av": ["av"],
    }
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: owners)
    assert foreign_owners() == {"daemon": ["python-daemon"], "train": ["choochoo"]}
    assert set(OWN_PACKAGES) == {"daemon", "pipeline", "models", "train"}
