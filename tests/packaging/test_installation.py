"""One script installs: by hand, in a container, and into the package."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from clean_root import LIMIT_S, CleanRoot, bootstrap, no_roots, pip_paths, pip_settings

from daemon import __version__
from daemon.config.configuration import ConfigurationError, parse_configuration

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "packaging" / "compose"
SCRIPT = "packaging/install"
CONTAINERFILE = (ROOT / "packaging" / "Containerfile").read_text().replace("\\\n", "")


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


def runner(folder: Path) -> Callable[..., str]:
    """Runs a command, which must end well, on this folder's images and containers; gives what it prints."""
    storage, settings = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(f"[storage]\ndriver='overlay'\ngraphroot='{folder}/store'\nrunroot='{folder}/run'\n")
    # A virtual machine may forbid higher limits, and have both kinds of cgroups, which crun refuses.
    settings.write_text(
        "[containers]\ndefault_ulimits = ['nofile=1024:1024', 'nproc=1024:1024']\n"
        f"[engine]\nruntime = 'runc'\n[network]\nnetwork_config_dir = '{folder}/networks'\n"
    )
    files = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(settings)}
    environment = {**os.environ, **files, "BUILDAH_ISOLATION": "chroot"}

    def run(*words: object, where: Path = ROOT, told: str = "") -> str:
        piped = {"capture_output": True, "text": True, "input": told, "timeout": LIMIT_S}
        done = subprocess.run([*map(str, words)], cwd=where, env=environment, check=False, **piped)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout.strip()

    return run


@pytest.fixture(scope="module")
def containers(tmp_path_factory) -> Iterator[Callable[..., str]]:
    """Runs commands beside the image, which a tool without a daemon builds; its base is made, not fetched."""
    if "NARRATED_DEB" not in os.environ:
        pytest.skip("takes minutes: make test-deb")
    if reason := no_roots() or ("" if shutil.which("buildah") else "no buildah"):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("containers")
    if reason := bootstrap(folder / "root", ["ca-certificates"]):
        pytest.skip(reason)
    run = runner(folder)
    try:
        base = run("buildah", "from", "scratch")
        run("buildah", "add", "--quiet", base, folder / "root", "/")
        (image,) = instructions("FROM")
        run("buildah", "commit", "--quiet", "--rm", base, f"docker.io/library/{image}")
        shutil.rmtree(folder / "root")
        settings = "".join(
            f"{key.removeprefix('PIP_').lower().replace('_', '-')}={value}\n"
            for key, value in pip_settings().items()
        )
        (folder / "pip.conf").write_text(f"[global]\n{settings}")
        shown = [f"--volume={path}:{path}:ro" for path in pip_paths()]
        secret, file = f"--secret=id=pip.conf,src={folder}/pip.conf", ROOT / "packaging" / "Containerfile"
        run("buildah", "bud", "--pull-never", *shown, secret, "--file", file, "--tag", "narrated", ROOT)
        yield run
    finally:
        run("buildah", "rm", "--all")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(1800)
def test_the_image_is_built_and_runs(containers):
    container = containers("buildah", "from", "--pull-never", "narrated")
    within = partial(containers, "buildah", "run", container, "--")
    assert within("narrated", "--version") == f"narrated {__version__}"
    assert within("id", "-un") == "narrated"
    assert "compiled at installation" in within("narrated", "doctor")
    assert within("ls", "/var/lib/apt/lists") == ""
