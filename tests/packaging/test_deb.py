"""The package, installed into a fresh Debian, used there as its unit would, upgraded, removed and purged.

Takes minutes: `make test-deb` builds the package and runs it. The tests follow one another on one machine.
"""

import os
import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_root import CleanRoot, bootstrap, no_roots
from drawn_footage import clip

ROOT = Path(__file__).parents[2]
PACKAGE = os.environ.get("NARRATED_DEB", "")
UNITS = sorted(path.name for path in (ROOT / "systemd").iterdir() if path.suffix in {".service", ".timer"})
RESTARTED = "try-restart " + " ".join(
    f"{unit}.service"
    for unit in ("narrated", "narrated-forward", "narrated-serve", "narrated-worker", "narrated-collect")
)
CONFIGURED = "version: 1\nstate: /var/lib/narrated\ncameras: {yard: {url: /var/lib/narrated/footage/*.mp4}}\n"
STATE, CACHE = "/var/lib/narrated", "/var/cache/narrated"

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not PACKAGE, reason="takes minutes and needs a package: make test-deb"),
    pytest.mark.skipif(bool(no_roots()), reason=no_roots()),
]


def field(name: str) -> str:
    """A field of the package's control file."""
    shown = subprocess.run(["dpkg-deb", "-f", PACKAGE, name], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Iterator[CleanRoot]:
    """A smallest Debian with what the package says that it depends on, and the package."""
    folder = tmp_path_factory.mktemp("machine") / "root"
    wanted = sorted({re.split(r"[ (|]", word.strip())[0] for word in field("Depends").split(",")})
    if reason := bootstrap(folder, wanted):
        pytest.skip(reason)
    machine = CleanRoot(folder, booted=True)
    machine.bind(Path(PACKAGE).resolve(), "/srv/narrated.deb")
    machine.bind(ROOT / "tests" / "systemd", "/srv/tests/systemd")
    machine.run("dpkg", "--force-unsafe-io", "-i", "/srv/narrated.deb")
    (folder / STATE.lstrip("/") / "kept").write_text("of the record\n")
    yield machine
    shutil.rmtree(folder)


def confined(
    machine: CleanRoot, *words: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Starts narrated as its unit's user, under its unit's restrictions."""
    unit = "/usr/lib/systemd/system/narrated.service"
    python = ["/opt/narrated/bin/python", "/srv/tests/systemd/confined.py", unit, STATE, CACHE]
    ours = {"STATE_DIRECTORY": STATE, "HOME": CACHE}
    return machine.start(
        *python, "--", "/opt/narrated/bin/narrated", *words, environment=ours | (environment or {})
    )


def test_it_is_whole_and_its_units_are_sound(machine):
    assert machine.asked_of_systemd() == ["daemon-reload", RESTARTED]
    assert machine.run("systemd-analyze", "verify", "--man=no", *UNITS) == ""
    assert machine.run("dpkg", "--verify", "narrated") == ""
    owners = machine.run("stat", "-c", "%U:%G %a %n", "/etc/narrated", "/etc/narrated/narrated.yaml", STATE)
    assert owners.splitlines() == [
        "root:narrated 750 /etc/narrated",
        "root:narrated 640 /etc/narrated/narrated.yaml",
        f"narrated:narrated 750 {STATE}",
    ]
    assert machine.run("narrated", "--version") == f"narrated {field('Version')}\n"
    traces = ["grep", "-rlF", "--exclude=*.pyc", str(ROOT), "/opt/narrated", "/usr/share/doc/narrated"]
    assert machine.run(*traces, code=1) == ""


def test_it_checks_its_configuration_under_the_units_restrictions(machine):
    sample = confined(machine, "check-config", "-c", "/etc/narrated/narrated.yaml")
    printed, _ = sample.communicate(timeout=300)
    assert (sample.returncode, "cameras: name at least one" in printed) == (78, True), printed
    clip(machine.folder / "var/lib/narrated/footage/yard.mp4", seconds=40)
    (machine.folder / "etc/narrated/narrated.yaml").write_text(CONFIGURED)
    ours = confined(machine, "check-config", "-c", "/etc/narrated/narrated.yaml")
    printed, _ = ours.communicate(timeout=300)
    assert ours.returncode == 0, printed


def test_it_runs_under_the_units_restrictions(machine):
    """The unit's own command line: systemd is told, the journal is written, and it ends with the footage."""
    unit = (machine.folder / "usr/lib/systemd/system/narrated.service").read_text()
    (line,) = re.findall(r"^ExecStart=/opt/narrated/bin/narrated (.*)$", unit, re.MULTILINE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        path = machine.folder / "run/notify"
        notified.bind(str(path))
        path.chmod(0o666)
        process = confined(machine, *line.split(), environment={"NOTIFY_SOCKET": "/run/notify"})
        told = ""
        deadline = time.monotonic() + 300
        while "READY=1" not in told and process.poll() is None and time.monotonic() < deadline:
            if select.select([notified], [], [], 0.2)[0]:
                told += notified.recv(4096).decode()
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    assert "READY=1" in told, printed
    assert machine.run(
        "setpriv",
        "--reuid=narrated",
        "--regid=narrated",
        "--clear-groups",
        "narrated",
        "verify",
        f"{STATE}/journal",
    )
    assert list(machine.folder.glob(f"{STATE.lstrip('/')}/journal/yard*.jsonl")), printed


def next_version(folder: Path) -> Path:
    """The package's successor: its scripts, units and a new sample, without the libraries."""
    for part in ("DEBIAN", "usr/lib/systemd/system", "etc/narrated"):
        (folder / part).mkdir(parents=True)
    subprocess.run(["dpkg-deb", "--control", PACKAGE, folder / "DEBIAN"], check=True)
    (folder / "DEBIAN" / "md5sums").unlink(missing_ok=True)
    control = folder / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(f"Version: {field('Version')}", "Version: 9.0"))
    for unit in UNITS:
        shutil.copy(ROOT / "systemd" / unit, folder / "usr/lib/systemd/system")
    for kind, where in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
        (folder / "usr/lib" / where).mkdir()
        shutil.copy(ROOT / "systemd" / f"narrated.{kind}", folder / "usr/lib" / where / "narrated.conf")
    (folder / "etc/narrated/narrated.yaml").write_text("version: 2\n")
    package = folder.parent / "next.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", folder, package]
    subprocess.run(command, capture_output=True, check=True)
    return package


def record(machine: CleanRoot) -> dict[str, bytes]:
    """Every file of the record."""
    folder = machine.folder / STATE.lstrip("/")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_upgrade_keeps_record_and_configuration(machine, tmp_path):
    before = record(machine)
    assert before
    (machine.folder / "etc/narrated/narrated.yaml").write_text(CONFIGURED)
    machine.run("systemctl", "enable", *UNITS)
    machine.asked_of_systemd()
    machine.bind(next_version(tmp_path / "next"), "/srv/next.deb")
    machine.run("dpkg", "--force-confdef", "--force-confold", "-i", "/srv/next.deb")
    assert record(machine) == before
    assert (machine.folder / "etc/narrated/narrated.yaml").read_text() == CONFIGURED
    assert "640" in machine.run("stat", "-c", "%a", "/etc/narrated/narrated.yaml")
    assert machine.asked_of_systemd() == ["daemon-reload", RESTARTED]
    assert not (machine.folder / "opt/narrated").exists()  # the old version's files are gone


def test_removing_stops_the_units_and_keeps_what_is_not_the_programs(machine):
    before = record(machine)
    wants = machine.folder / "etc/systemd/system/multi-user.target.wants"
    assert (wants / "narrated.service").is_symlink()
    machine.run("dpkg", "--remove", "narrated")
    asked = machine.asked_of_systemd()
    assert asked[-1] == "daemon-reload"
    (stopped,) = [line.split() for line in asked if "disable" in line]
    assert {"disable", "--now", *UNITS} <= {*stopped}
    assert not (wants / "narrated.service").is_symlink()
    assert not (machine.folder / "usr/lib/systemd/system/narrated.service").exists()
    assert (machine.folder / "etc/narrated/narrated.yaml").read_text() == CONFIGURED
    assert record(machine) == before


def test_a_purge_forgets_everything_but_the_record(machine):
    before = record(machine)
    assert (machine.folder / CACHE.lstrip("/")).is_dir()
    assert f"the record is still in {STATE}" in machine.run("dpkg", "--purge", "narrated")
    assert record(machine) == before
    for gone in ("etc/narrated", "var/cache/narrated", "opt/narrated"):
        assert not (machine.folder / gone).exists()
    assert "narrated" not in machine.run("dpkg-query", "--list")
