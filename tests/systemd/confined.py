"""Runs a command under the restrictions of a unit, where no systemd runs.

Usage: confined.py UNIT STATE CACHE [SEEN ...] -- COMMAND ...

Needs root, `unshare`, systemd-analyze and libseccomp. Of the unit these are built again: User= with its
groups (65534 where there is no such user), NoNewPrivileges=, CapabilityBoundingSet=, ProtectSystem=strict
(read-only but for STATE and CACHE), ProtectHome= and PrivateTmp= (empty but for SEEN and the interpreter,
read-only), PrivateDevices=, ProtectProc=invisible, PrivateIPC=, ProtectHostname=, ProtectControlGroups= and
ProtectKernelTunables=, SystemCallFilter= with SystemCallErrorNumber=EPERM, SystemCallArchitectures=native,
RestrictAddressFamilies=, RestrictNamespaces=, TasksMax= (as a limit of the user's processes).

Not built again: PrivateUsers=, MemoryMax= and DevicePolicy=, which need control groups or systemd's own user
namespace; RestrictRealtime=, LockPersonality= and RestrictSUIDSGID=, narrower filters of the same kind.
"""

from __future__ import annotations

import ctypes
import errno
import grp
import os
import pwd
import resource
import socket
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
STAGE, TEMPORARY = Path("/mnt"), "/tmp"  # noqa: S108 - it is emptied
DEVICES = ("null", "zero", "full", "random", "urandom")
CLONE_NEW = 0x7E020000 | 0x00000080  # namespaces of clone(2), CLONE_NEWTIME included
ALLOW, ERRNO, EQUAL, MASKED = 0x7FFF0000, 0x00050000, 4, 7
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, LAST_CAPABILITY = 24, 38, 40


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def settings(unit: Path, key: str) -> list[str]:
    """Values of a key, line by line."""
    lines = unit.read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def calls_of(names: list[str]) -> set[str]:
    """System calls of systemd's sets and single names."""
    found = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        shown = subprocess.run(
            ["systemd-analyze", "syscall-filter", "--no-pager", name],
            capture_output=True,
            text=True,
            check=True,
        )
        members = [line.strip() for line in shown.stdout.splitlines()[1:]]
        found |= calls_of([m for m in members if m and not m.startswith("#")])
    return found


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enclose(writable: list[Path], seen: list[Path]) -> None:
    """Everything read-only, homes and /tmp empty, a /dev of five devices; in this mount namespace only."""
    kept = {path: STAGE / str(i) for i, path in enumerate([*writable, *seen])}
    mount("-t", "tmpfs", "tmpfs", STAGE)
    for path, stage in kept.items():
        stage.mkdir() if path.is_dir() else stage.touch()
        mount("--rbind", path, stage)
    (STAGE / "dev").mkdir()
    for device in DEVICES:
        (STAGE / "dev" / device).touch()
        mount("--bind", f"/dev/{device}", STAGE / "dev" / device)
    for hidden in ("/home", "/root", TEMPORARY):
        mount("-t", "tmpfs", "-o", "mode=1777" if hidden == TEMPORARY else "mode=755", "tmpfs", hidden)
    for path, stage in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if stage.is_dir():
            path.mkdir(exist_ok=True)
        elif not path.exists():
            path.touch()
        mount("--rbind", stage, path)
    mount("--rbind", STAGE / "dev", "/dev")
    mount("-t", "proc", "-o", "hidepid=2", "proc", "/proc")
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    open_points = {*map(str, writable), TEMPORARY, "/proc", *(f"/dev/{device}" for device in DEVICES)}
    for point in points:
        if point not in open_points and not point.startswith(str(STAGE)):
            subprocess.run(["mount", "-o", "remount,bind,ro", point], check=False, capture_output=True)
    mount("-t", "tmpfs", "-o", "ro", "tmpfs", STAGE)


def user_of(unit: Path) -> tuple[int, int, list[int]]:
    """User, group and groups of the unit; nobody where there is no such user."""
    (name,) = settings(unit, "User")
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return NOBODY, NOBODY, []
    extra = [grp.getgrnam(group).gr_gid for group in settings(unit, "SupplementaryGroups")]
    return user.pw_uid, user.pw_gid, [*os.getgrouplist(name, user.pw_gid), *extra]


def drop_privileges(unit: Path) -> None:
    """Another user, no capabilities and none to come."""
    user, group, groups = user_of(unit)
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (int(settings(unit, "TasksMax")[0]),) * 2)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("no_new_privs cannot be set")


def filter_calls(unit: Path) -> None:
    """The unit's system calls, without namespaces and without other address families; the rest gets EPERM."""
    allowed: set[str] = set()
    for value in settings(unit, "SystemCallFilter"):
        names = value.removeprefix("~").split()
        allowed = allowed - calls_of(names) if value.startswith("~") else allowed | calls_of(names)
    families = [getattr(socket, name) for name in settings(unit, "RestrictAddressFamilies")[0].split()]
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ERRNO | errno.EPERM))

    def allow(name: str, *comparisons: Comparison) -> None:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            array = (Comparison * len(comparisons))(*comparisons)
            library.seccomp_rule_add_array(rules, ALLOW, number, len(comparisons), array)

    for name in allowed - {"socket", "clone", "clone3", "unshare", "setns"}:
        allow(name)
    for family in families:
        allow("socket", Comparison(0, EQUAL, family, 0))
    allow("clone", Comparison(0, MASKED, CLONE_NEW, 0))
    library.seccomp_rule_add_array(
        rules, ERRNO | errno.ENOSYS, library.seccomp_syscall_resolve_name(b"clone3"), 0, None
    )  # its flags cannot be looked into: libc then takes clone
    if library.seccomp_load(rules):
        sys.exit("the filter cannot be loaded")


def main() -> None:
    unit, state, cache, *rest = sys.argv[1:]
    seen, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    interpreter = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).resolve().parents[2]]
    text = Path(unit).read_text()
    user, group, _ = user_of(Path(unit))
    for folder in (state, cache):
        os.chown(folder, user, group)
    enclose([Path(state), Path(cache)], [*interpreter, *map(Path, seen)])
    copy = Path(TEMPORARY, "unit")  # the tree may lie where this user cannot look
    copy.write_text(text)
    drop_privileges(copy)
    filter_calls(copy)
    os.execvp(command[0], command)  # noqa: S606 - the command that was asked for


if __name__ == "__main__":
    main()
