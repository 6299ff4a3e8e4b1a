"""`packaging/install` says what it does before it does anything; its configuration has no cameras."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from daemon.config.configuration import ConfigurationError, parse_configuration

PACKAGING = Path(__file__).parents[2] / "packaging"


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("-h", 0), ("--prefix", 2)])
def test_an_option_installs_nothing(tmp_path: Path, option: str, code: int) -> None:
    done = subprocess.run(
        [PACKAGING / "install", option], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code
    assert "Installs narrated on this machine" in done.stdout
    assert bool(done.stderr) == bool(code)
    assert list(tmp_path.iterdir()) == []


def test_the_first_configuration_lacks_nothing_but_cameras() -> None:
    text = (PACKAGING / "narrated.yaml").read_text()
    with pytest.raises(ConfigurationError, match="cameras: name at least one") as refused:
        parse_configuration(text)
    assert len(refused.value.problems) == 1
    example = text.replace("cameras: {}", "cameras:").replace("#  ", "  ")
    lines = [line for line in example.splitlines() if line.startswith(("  front", "    url"))]
    whole = "\n".join([text.replace("cameras: {}", "cameras:"), *lines])
    assert parse_configuration(whole).cameras["front_door"].url.startswith("rtsp://${cred:")
