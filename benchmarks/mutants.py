"""Do the tests notice one-line bugs where the product's promises lie: what share of mutants do they kill?

    pip install 'narrated[dev,mutants]'
    python benchmarks/mutants.py [--each 40] [--seed 1] [--minutes 20] [--only journal pairs]

Of each room's statements and operators some are drawn by the seed, each place in the source at most once, and
spoilt one at a time in a copy of the checkout: by cosmic-ray's operators (comparisons, arithmetic, numbers,
booleans, `not`, `break`, loops that never run, exceptions), or by leaving out a statement that changes more
than a local name. Then the tests that concern the room run until the first one fails; those on real footage
and the slow ones are left out. What differs in annotations alone is no mutant. Printed are a table, and every
mutant that nobody noticed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Name, PythonNode
from parso.tree import search_ancestor

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = (
    "ReplaceBinary",
    "ReplaceComparison",
    "ReplaceUnary",
    "ReplaceTrue",
    "ReplaceFalse",
    "ReplaceAnd",
    "ReplaceOr",
    "ReplaceBreak",
    "ReplaceContinue",
    "AddNot",
    "NumberReplacer",
    "ExceptionReplacer",
    "ZeroIteration",
)
NARROWED = ("-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not footage")
MEMORY = 8 * 2**30  # bytes: a loop that never ends must not take the machine with it
CRASHES = ("BitOr", "BitXor", "BitAnd", "LShift", "RShift", "Pow", "Invert")  # of what is no whole number


@dataclass(frozen=True, slots=True)
class Room:
    """Sources that are spoilt, and the tests that should notice; both are patterns below the checkout."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "journal": Room(
        ("pipeline/journal/*.py",),
        (
            "tests/pipeline/journal",
            "tests/daemon/threads/test_publication.py",
        ),
    ),
    "limits": Room(
        ("pipeline/policy/*.py",), ("tests/pipeline/policy", "tests/daemon/threads/test_narrator.py")
    ),
    "retention": Room(("daemon/threads/retention.py",), ("tests/daemon/threads/test_retention.py",)),
    "pairs": Room(
        ("pipeline/pairs.py",), ("tests/pipeline/test_pairs.py", "tests/pipeline/test_pairs_between.py")
    ),
    "linking": Room(
        ("models/grounded/linker.py",),
        (
            "tests/models/grounded/test_linker.py",
            "tests/models/grounded/test_tracker.py",
            "tests/train/grounded/test_linker.py",
        ),
    ),
}


class StatementRemover(Operator):
    """Leaves out a call that stands alone, or what changes more than a local name."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Where the node holds such a statement: start and end as (line, column)."""
        if not (
            isinstance(node, PythonNode) and node.type == "simple_stmt" and search_ancestor(node, "funcdef")
        ):
            return
        inner = node.children[0]
        alone = inner.type == "atom_expr" or (
            inner.type == "expr_stmt" and (inner.children[0].type == "atom_expr" or inner.children[1] != "=")
        )
        if alone:
            yield inner.start_pos, inner.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - cosmic-ray's
        """The node with `pass` in the statement's place."""
        inner = node.children[0]
        node.children[0] = Name("pass", inner.start_pos, prefix=inner.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: they are for cosmic-ray's own tests."""
        return ()


@dataclass(frozen=True, slots=True)
class Mutant:
    """A spoilt source file: where it is, the line, what it was, and what it is now."""

    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        changed = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), n=0, lineterm="")
        lines = [line for line in changed if not line.startswith(("---", "+++", "@@"))]
        return "\n".join([f"{self.path}:{self.line}", *(f"    {line}" for line in lines)])


def meaning(code: str) -> str | None:
    """The syntax tree without annotations, as text; None where it is no Python."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    nothing = ast.Constant(value=None)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = nothing
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def _sensible(name: str) -> bool:
    """Whether an operator of cosmic-ray's makes bugs that a person might: no `|` of `+`, no `is` of `<`."""
    kind, *between = name.partition("/")[2].split("_")
    if not kind.startswith(FAMILIES) or set(between) & set(CRASHES):
        return False
    return len(between) != 2 or len(set(between) & {"Is", "IsNot"}) in {0, 2}


def mutants(paths: list[Path], seed: int) -> Iterator[Mutant]:
    """Mutants of the files in the seed's order: at any place of the source one, chosen by the seed."""
    operators: list[Any] = [StatementRemover()]
    operators += [get_operator(name)() for name in sorted(operator_names()) if _sensible(name)]
    places: dict[tuple[Path, tuple[int, int]], list[tuple[Any, int]]] = {}
    for path in paths:
        nodes = list(ast_nodes(get_ast(path.read_text())))
        for operator in operators:
            found = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(found):
                places.setdefault((path, start), []).append((operator, occurrence))
    chance = random.Random(seed)  # noqa: S311 - a sample
    order = list(places)
    chance.shuffle(order)
    for path, (line, column) in order:
        operator, occurrence = chance.choice(places[path, (line, column)])
        before = path.read_text()
        after = mutate_code(before, operator, occurrence)
        if after is not None and meaning(after) not in {None, meaning(before)}:
            yield Mutant(str(path.relative_to(ROOT)), line, before, after)


def copy_checkout(folder: Path) -> Path:
    """The checkout's files in a folder of their own, with the same `shared` beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    copy = folder / "checkout"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return copy


def outcome(copy: Path, tests: tuple[str, ...], limit_s: float) -> str:
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
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return "killed" if code else "survived"


def judged(room: Room, each: int, seed: int, minutes: float) -> list[tuple[Mutant, str]]:
    """What became of the room's mutants; RuntimeError where its tests fail without one."""
    paths = sorted(path for pattern in room.sources for path in ROOT.glob(pattern))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copy_checkout(Path(folder))
        outcome(copy, ("--collect-only", *room.tests), 3600)  # the kernels are compiled now
        began = time.monotonic()
        if outcome(copy, room.tests, 3600) != "survived":
            raise RuntimeError(f"without a mutant these tests fail already: {' '.join(room.tests)}")
        limit_s = 60 + 3 * (time.monotonic() - began)
        found: list[tuple[Mutant, str]] = []
        end = time.monotonic() + 60 * minutes
        for mutant in mutants(paths, seed):
            if len(found) == each or time.monotonic() > end:
                break
            (copy / mutant.path).write_text(mutant.after)
            found.append((mutant, outcome(copy, room.tests, limit_s)))
            (copy / mutant.path).write_text(mutant.before)
            print(f"{len(found)} {found[-1][1]}: {mutant}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=40, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each room; then it ends with fewer")
    parser.add_argument("--only", nargs="+", choices=tuple(ROOMS), default=tuple(ROOMS))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # of the tests, too
    rows, survivors = (
        ["| Room | Mutants | Killed | Hung | Survived | Share |", "|---|---|---|---|---|---|"],
        [],
    )
    for name in options.only:
        found = judged(ROOMS[name], options.each, options.seed, options.minutes)
        count = {kind: sum(each == kind for _, each in found) for kind in ("killed", "hung", "survived")}
        share = 1 - count["survived"] / max(1, len(found))
        rows.append(f"| {name} | {len(found)} | {' | '.join(map(str, count.values()))} | {share:.0%} |")
        survivors += [mutant for mutant, each in found if each == "survived"]
    print("\n".join(rows), "Survivors:", *survivors, sep="\n\n" if survivors else "\n")


if __name__ == "__main__":
    main()
