"""No other distribution may own our generically named packages; the doctor asks the same."""

from __future__ import annotations

from daemon.tools.doctor import OWN_PACKAGES, foreign_owners


def test_the_four_names_are_ours_alone() -> None:
    assert foreign_owners() == {}


def test_another_owner_is_named() -> None:
    owners = {
        "daemon": ["narrated", "python-daemon"],
        "models": ["narrated"],
        "train": ["choochoo"],
        "av": ["av"],
    }
    assert foreign_owners(owners) == {"daemon": ["python-daemon"], "train": ["choochoo"]}
    assert set(OWN_PACKAGES) == {"daemon", "pipeline", "models", "train"}
