"""The units are sound and hardened, as far as systemd's own tools tell."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confined_units import assert_reads_the_record, assert_sound, exposure, needs_systemd, runnable
from forked_commands import forker

from daemon.threads.narrator import BATCH_LIMIT_S

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "narrated.service"


@needs_systemd
def test_the_verification_by_its_timer_is_sound(tmp_path):
    for kind in ("service", "timer"):
        shutil.copy(FOLDER / f"narrated-verify.{kind}", tmp_path)
    for kind in ("service", "timer"):
        assert_sound(tmp_path / f"narrated-verify.{kind}")


@needs_systemd
@pytest.mark.parametrize(
    ("name", "dropped_in", "most"),
    [
        ("narrated", "", 1.5),
        ("narrated", "gpu.conf", 2.0),
        ("narrated-collect", "", 1.3),
        ("narrated-forward", "", 1.5),
        ("narrated-serve", "", 1.4),
        ("narrated-worker", "", 1.5),
    ],
)
def test_a_unit_is_sound_and_little_exposed(tmp_path, name, dropped_in, most):
    unit = runnable(FOLDER / f"{name}.service", tmp_path)
    assert_sound(unit)
    if dropped_in:
        lines = (FOLDER / dropped_in).read_text().split("[Service]\n")[1]
        unit.write_text(unit.read_text().replace("[Install]", f"{lines}\n[Install]"))
    assert exposure(unit) <= most


def test_what_the_program_relies_on():
    lines = UNIT.read_text().splitlines()
    assert {"Type=notify", "NotifyAccess=main", "ExecReload=/bin/kill -HUP $MAINPID"} <= {*lines}
    assert not any(line.startswith("MemoryDenyWriteExecute") for line in lines)  # numba cannot run under it


def test_the_collector_loads_nothing_that_compiles_at_run_time():
    """Its unit allows no memory that is both written and run."""
    script = "import sys, daemon.collect.collector; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numba", "llvmlite", "onnxruntime", "torch", "cv2"} & set(shown.stdout.split())


@pytest.mark.parametrize("name", ["narrated-forward", "narrated-serve"])
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not installed")
def test_a_user_reads_what_the_group_of_the_daemon_may(tmp_path, name):
    assert_reads_the_record(FOLDER / f"{name}.service", tmp_path)


def ended(unit: Path, state: Path) -> str:
    """What the unit's own command line says as it ends, by this tree's program, and is not tried again.

    systemd asks `RestartPreventExitStatus=` of the main process alone, so no other one may fail by it.
    """
    text = unit.read_text()
    assert not re.search("^Exec(Condition|StartPre)=", text, re.MULTILINE)
    (line,) = re.findall("^ExecStart=/opt/narrated/bin/narrated (.*)$", text, re.MULTILINE)
    (final,) = re.findall("^RestartPreventExitStatus=(.*)$", text, re.MULTILINE)
    words = line.replace("$$", "$").replace("/etc/narrated", str(state)).split()
    process = forker().start(words, state, STATE_DIRECTORY=str(state))
    _, said = process.communicate()
    assert str(process.returncode) in final.split(), said
    return said


def test_a_broken_configuration_ends_the_service_and_is_not_tried_again(tmp_path):
    text = "version: 1\ncameras:\n  yard: {url: 'rtsp://${cred:yard}@127.0.0.1:1/x'}\n"
    (tmp_path / "narrated.yaml").write_text(text)
    assert "narrated" in ended(UNIT, tmp_path)


def test_a_worker_without_its_credential_ends_and_is_not_tried_again(tmp_path):
    unit = FOLDER / "narrated-worker.service"
    assert "LoadCredential=redis:" in ended(unit, tmp_path)
    (seconds,) = re.findall(r"^WatchdogSec=(\d+)$", unit.read_text(), re.MULTILINE)
    assert int(seconds) >= 2 * BATCH_LIMIT_S


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd is not installed")
def test_installed_into_an_empty_root_only_the_service_reads_the_configuration(tmp_path):
    """The README's steps, but for pip's and systemctl's."""
    root = tmp_path / "root"
    for folder in ("etc/systemd/system", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (root / folder).mkdir(parents=True)
    shutil.copy(UNIT, root / "etc/systemd/system")
    for kind, where in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
        shutil.copy(FOLDER / f"narrated.{kind}", root / "usr/lib" / where / "narrated.conf")
    subprocess.run(["systemd-sysusers", f"--root={root}"], capture_output=True, timeout=60, check=True)
    create = ["systemd-tmpfiles", "--create", f"--root={root}", "narrated.conf"]
    subprocess.run(create, capture_output=True, timeout=60, check=True)
    assert (root / "etc/narrated").is_dir()
    users = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    (user,) = [line for line in users if line[0] == "narrated"]
    config = root / "etc/narrated/narrated.yaml"
    install = ["install", "-m", "640", "-g", user[3], FOLDER.parent / "configs" / "narrated.yaml", config]
    subprocess.run(install, timeout=60, check=True)
    for path, mode in ((config.parent, 0o750), (config, 0o640)):
        assert (path.stat().st_uid, str(path.stat().st_gid)) == (0, user[3])
        assert stat.S_IMODE(path.stat().st_mode) == mode
