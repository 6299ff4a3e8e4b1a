"""Do the tests notice one-line bugs where the product's promises lie: what share of mutants do they kill?

    python benchmarks/mutants.py [--each 40] [--seed 1] [--minutes 20] [--only journal pairs]

Some places of each room are drawn by the seed and spoilt one at a time in a copy of the checkout: a
comparison, `and`, `not`, `+`, number or truth value is another one, a statement is left out. Then the room's
tests run until the first one fails, without those on real footage and the slow ones. Printed are a table, and
every mutant that no test noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NARROWED = ("-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not footage")
MEMORY = 8 * 2**30  # bytes: a loop that never ends must not take the machine with it
SWAPS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
)
OPERATORS = dict([*SWAPS, *(pair[::-1] for pair in SWAPS)])
ROOMS = {  # sources that are spoilt, and the tests that should notice
    "journal": (
        "pipeline/journal/*.py",
        "tests/pipeline/journal",
        "tests/daemon/threads/test_publication.py",
    ),
    "limits": (
        "pipeline/limits.py",
        "tests/pipeline/test_limits.py",
        "tests/daemon/threads/test_narrator.py",
    ),
    "retention": ("daemon/threads/retention.py", "tests/daemon/threads/test_retention.py"),
    "pairs": ("pipeline/pairs.py", "tests/pipeline/test_pairs.py"),
    "tracking": ("pipeline/tracking/*.py", "tests/pipeline/tracking"),
}


def spoil(tree: ast.Module, n: int) -> str | None:
    """Change the n-th node, in `ast.walk`'s order; what its line is now, or None where nothing can be."""
    for k, node in enumerate(ast.walk(tree)):
        if k < n:
            continue
        if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
            operator = node.ops[0] if isinstance(node, ast.Compare) else node.op
            other = OPERATORS.get(type(operator))
            if other is None:
                return None
            if isinstance(node, ast.Compare):
                node.ops[0] = other()
            else:
                node.op = other()
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool"), [node.operand], [])
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            node.value = ast.Constant(None)
        else:
            return None
        return ast.unparse(node)
    return None


def mutants(paths: list[Path], seed: int) -> Iterator[tuple[str, str, str]]:
    """Path below the checkout, source, and `line: what it is now` of mutants, in the seed's order."""
    places = [
        (path, n)
        for path in paths
        for n, node in enumerate(ast.walk(ast.parse(path.read_text())))
        if isinstance(node, ast.expr | ast.Expr)
    ]
    random.Random(seed).shuffle(places)  # noqa: S311 - a sample
    for path, n in places:
        tree = ast.parse(path.read_text())
        line = getattr(list(ast.walk(tree))[n], "lineno", 0)
        if now := spoil(tree, n):
            yield str(path.relative_to(ROOT)), ast.unparse(tree), f"{line}: {now}"


def copy_checkout(folder: Path) -> Path:
    """The checkout's files in a folder of their own, with the same `shared` beside them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    copy = folder / "checkout"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return copy


def outcome(copy: Path, tests: list[str], limit_s: float) -> str:
    """`survived` where all tests pass, `killed` where one fails, `hung` where they take too long."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", *NARROWED, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return "killed" if process.wait(limit_s) else "survived"
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def try_room(pattern: str, tests: list[str], chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """The room's mutants and their outcomes; RuntimeError where its tests fail without one."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copy_checkout(Path(folder))
        outcome(copy, ["--collect-only", *tests], 3600)  # the kernels are compiled now
        began = time.monotonic()
        if outcome(copy, tests, 3600) != "survived":
            raise RuntimeError(f"without a mutant these tests fail already: {' '.join(tests)}")
        limit_s = 60 + 3 * (time.monotonic() - began)
        found: list[tuple[str, str]] = []
        end = time.monotonic() + 60 * chosen.minutes
        for path, source, what in mutants(sorted(ROOT.glob(pattern)), chosen.seed):
            if len(found) == chosen.each or time.monotonic() > end:
                break
            (copy / path).write_text(source)
            found.append((f"{path}:{what}", outcome(copy, tests, limit_s)))
            shutil.copy2(ROOT / path, copy / path)
            print(len(found), *reversed(found[-1]), file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--each", type=int, default=40, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each room; then it ends with fewer")
    parser.add_argument("--only", nargs="+", choices=tuple(ROOMS), default=tuple(ROOMS))
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # of the tests, too
    rows = ["| room | mutants | killed | hung | survived | noticed |", "|---" * 6 + "|"]
    survivors: list[str] = []
    for name in chosen.only:
        pattern, *tests = ROOMS[name]
        found = try_room(pattern, tests, chosen)
        counts = [sum(each == kind for _, each in found) for kind in ("killed", "hung", "survived")]
        noticed = 1 - counts[2] / max(1, len(found))
        rows.append(f"| {name} | {len(found)} | {' | '.join(map(str, counts))} | {noticed:.0%} |")
        survivors += [what for what, each in found if each == "survived"]
    print("\n".join([*rows, "", "Survivors:", *survivors]))


if __name__ == "__main__":
    main()
