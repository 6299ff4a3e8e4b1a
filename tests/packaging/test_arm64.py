"""Every package that an installation needs has a wheel for 64-bit ARM, in the version of constraints.txt."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("embedded", "forward", "serve", "jit")
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(item for name in EXTRAS for item in PROJECT["optional-dependencies"][name]),
]


def resolve(machine: str, folder: Path) -> subprocess.CompletedProcess[str]:
    options = ["--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:", "--python-version=3.11"]
    options += [f"--platform=manylinux{glibc}_{machine}" for glibc in ("2014", "_2_28")]
    options += [f"--target={folder}", f"--report={folder / 'report.json'}"]
    command = [sys.executable, "-m", "pip", "install", *options, f"--constraint={ROOT / 'constraints.txt'}"]
    return subprocess.run([*command, *REQUIREMENTS], capture_output=True, text=True, check=False)


@pytest.mark.skipif("NARRATED_DEB" not in os.environ, reason="asks a package index: make test-deb")
def test_every_pinned_wheel_exists(tmp_path):
    answer = resolve("aarch64", tmp_path)
    if answer.returncode and resolve("x86_64", tmp_path).returncode:
        pytest.skip("pip finds no packages for this machine either: no network")
    assert answer.returncode == 0, answer.stderr
    items = json.loads((tmp_path / "report.json").read_text())["install"]
    compiled = {
        item["metadata"]["name"].lower().replace("_", "-")
        for item in items
        if item["download_info"]["url"].endswith("aarch64.whl")
    }
    page = (ROOT / "docs" / "dependencies.md").read_text()
    listed = page.partition("64-bit ARM")[2].partition("\n\n")[0]
    assert compiled == set(listed.split("`")[1::2]) - {"constraints.txt"}
