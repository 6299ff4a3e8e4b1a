"""One script installs: by hand, in a container, into the package; there are wheels for 64-bit ARM."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from clean_root import CleanRoot, bootstrap, no_roots, pip_paths, pip_settings

from daemon import __version__
from daemon.config.configuration import ConfigurationError, parse_configuration

ROOT = Path(__file__).parents[2]
SCRIPT = "packaging/install"
CONTAINERFILE = (ROOT / "packaging" / "Containerfile").read_text().replace("\\\n", "")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("embedded", "forward", "serve", "jit")
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(item for name in EXTRAS for item in PROJECT["optional-dependencies"][name]),
]


def instructions(name: str) -> list[str]:
    """What the Containerfile says after an instruction, each time."""
    return re.findall(rf"^{name} (.*)$", CONTAINERFILE, re.MULTILINE)


def test_container_package_and_pages_install_by_the_script():
    (script,) = instructions("RUN")
    assert f" /mnt/{SCRIPT} " in script
    assert not instructions("COPY") + instructions("ADD")
    for name in ("packaging/deb", "README.md", "docs/operations.md"):
        text = (ROOT / name).read_text()
        assert SCRIPT in text, name
        assert "pip install -c" not in text, name


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("-h", 0), ("--prefix", 2)])
def test_an_option_installs_nothing(tmp_path, option, code):
    command = [ROOT / SCRIPT, option]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, bool(done.stderr)) == (code, bool(code))
    assert "Installs narrated on this machine" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_first_configuration_lacks_nothing_but_cameras():
    text = (ROOT / "packaging" / "narrated.yaml").read_text()
    with pytest.raises(ConfigurationError, match="cameras: name at least one") as refused:
        parse_configuration(text)
    assert len(refused.value.problems) == 1
    text = text.replace("cameras: {}", "cameras:")
    example = text.replace("#  ", "  ").splitlines()
    lines = [line for line in example if line.startswith(("  front", "    url"))]
    whole = parse_configuration("\n".join([text, *lines]))
    assert whole.cameras["front_door"].url.startswith("rtsp://${cred:")


@pytest.mark.timeout(1800)
@pytest.mark.skipif("NARRATED_DEB" not in os.environ, reason="takes minutes: make test-deb")
@pytest.mark.skipif(bool(no_roots()), reason=no_roots())
def test_the_containers_steps_in_a_fresh_debian(tmp_path):
    """They are also those that an administrator types."""
    (image,) = instructions("FROM")
    assert image.startswith("debian:")
    if reason := bootstrap(tmp_path / "root", ["ca-certificates"]):
        pytest.skip(reason)
    machine = CleanRoot(tmp_path / "root")
    machine.bind(Path("/etc/resolv.conf"), "/etc/resolv.conf")
    machine.bind(ROOT, "/mnt")
    machine.bind_pip()
    environment = {**pip_settings(), **{k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}}
    (script,) = instructions("RUN")
    machine.run("sh", "-ec", re.sub(r"--mount=\S+", "", script), environment=environment)
    configured = machine.folder / "etc/narrated/narrated.yaml"
    configured.write_text("version: 1\ncameras: {yard: {url: 'rtsp://10.0.0.5/s'}}\n")
    postinst = ["/mnt/packaging/debian/postinst", "configure"]
    machine.run(*postinst)
    assert "640 root narrated" in machine.run("stat", "-c", "%a %U %G", "/etc/narrated/narrated.yaml")
    (settings,), (user,) = instructions("ENV"), instructions("USER")
    (entry,) = instructions("ENTRYPOINT")
    assert entry == '["tini", "--", "narrated"]'
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", *settings.split()]
    machine.run(*become, "narrated", "check-config", "-c", "/etc/narrated/narrated.yaml")
    assert "compiled at installation" in machine.run(*become, "narrated", "doctor")
    shutil.rmtree(machine.folder)


@pytest.mark.timeout(1800)
@pytest.mark.skipif("NARRATED_DEB" not in os.environ, reason="takes minutes: make test-deb")
@pytest.mark.skipif(not shutil.which("buildah"), reason="no buildah")
@pytest.mark.skipif(bool(no_roots()), reason=no_roots())
def test_the_image_is_built_and_runs(tmp_path):
    """By a tool that needs no daemon; the image that it begins with is made here, not fetched."""
    if reason := bootstrap(tmp_path / "root", ["ca-certificates"]):
        pytest.skip(reason)
    store = ["buildah", "--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run")]
    environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}

    def buildah(*words: object) -> str:
        command = [*store, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout.strip()

    try:
        base = buildah("from", "scratch")
        buildah("add", "--quiet", base, tmp_path / "root", "/")
        (image,) = instructions("FROM")
        buildah("commit", "--quiet", "--rm", base, f"docker.io/library/{image}")
        shutil.rmtree(tmp_path / "root")
        settings = "".join(
            f"{key.removeprefix('PIP_').lower().replace('_', '-')}={value}\n"
            for key, value in pip_settings().items()
        )
        (tmp_path / "pip.conf").write_text(f"[global]\n{settings}")
        shown = [f"--volume={path}:{path}:ro" for path in pip_paths()]
        secret = f"--secret=id=pip.conf,src={tmp_path}/pip.conf"
        file = ROOT / "packaging" / "Containerfile"
        buildah("bud", "--pull-never", *shown, secret, "--file", file, "--tag", "narrated", ROOT)
        container = buildah("from", "--pull-never", "narrated")
        assert buildah("run", container, "--", "narrated", "--version") == f"narrated {__version__}"
        assert buildah("run", container, "--", "id", "-un") == "narrated"
        assert "compiled at installation" in buildah("run", container, "--", "narrated", "doctor")
        assert buildah("run", container, "--", "ls", "/var/lib/apt/lists") == ""
    finally:
        subprocess.run([*store, "rm", "--all"], env=environment, capture_output=True, check=False)
        shutil.rmtree(tmp_path / "store", ignore_errors=True)


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
