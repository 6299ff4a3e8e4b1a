"""The daemon under its unit's own restrictions, built without systemd (`tests/systemd/confined.py`)."""

import os
import shutil
from pathlib import Path

from confined_units import start_confined, unit_words
from numba.core.caching import _CacheLocator

from pipeline.journal import read_journal
from pipeline.publisher import subscribe

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "systemd" / "narrated.service"
PROBE = """
import os, socket
from pathlib import Path
def refused(what):
    try:
        what()
    except OSError as error:
        return error.strerror
    return "done"
lines = Path("/proc/self/status").read_text().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
print(os.getuid(), status["Seccomp"], status["NoNewPrivs"], int(status["CapBnd"], 16), os.listdir("/home"))
for what in (
    lambda: open("/usr/planted", "w"),
    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    lambda: os.sched_setaffinity(0, {0}),
    lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
    lambda: os.listdir("/root/.ssh"),
):
    print(refused(what))
"""


def take_kernels(cache: Path) -> None:
    """Kernels that this tree has compiled already; compiling all of them takes half a minute."""
    cache.mkdir(parents=True)
    for index in (ROOT / "pipeline").rglob("__pycache__/*.nbi"):
        source = index.parents[1]
        folder = cache / Path(_CacheLocator.get_suitable_cache_subpath(str(source / "kernel.py")))
        folder.mkdir(parents=True, exist_ok=True)
        for file in index.parent.glob(f"{index.stem}*.nb?"):
            shutil.copy(file, folder)
    for path in [cache, *cache.rglob("*")]:
        os.chown(path, 65534, 65534)


def test_the_restrictions_hold(tmp_path):
    process = start_confined(UNIT, tmp_path / "own", [], ["-c", PROBE])
    out, err = process.communicate(timeout=500)
    assert out.splitlines() == [
        "65534 2 1 0 []",
        "Read-only file system",
        "Operation not permitted",
        "Operation not permitted",
        "Operation not permitted",
        "No such file or directory",
    ], err


def test_the_daemon_runs_under_them(clip, checkpoint, tmp_path, server):
    """Kernels of numba, a captioner of torch's and PyAV's decoders, too."""
    config, socket = tmp_path / "narrated.yaml", Path(server.url.removeprefix("unix://").partition("?")[0])
    config.write_text(
        f"version: 1\nredis: {{url: '{server.url}'}}\ncaptioner: {{model: {checkpoint}, device: cpu}}\n"
        f"cameras:\n  confined: {{url: {clip}}}\n"
    )
    own = tmp_path / "own"
    take_kernels(own / "cache" / "numba")
    socket.chmod(0o777)  # as for the group redis of the unit's user
    process = start_confined(UNIT, own, [config, clip, checkpoint, socket], unit_words(UNIT, config))
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    told = list(read_journal(own / "state" / "journal" / "confined.jsonl"))
    assert len(told) == 2
    assert (own / "state" / "journal").stat().st_uid == 65534
    published = subscribe(server.url, ["confined"], "0")
    assert [next(published), next(published)] == told
    published.close()
