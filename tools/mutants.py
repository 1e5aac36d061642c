"""Change the modules that decide, one expression at a time, and see whether a test fails.

    python tools/mutants.py ledger commits --every 5      (`make mutants MODULES=ledger EVERY=5`)

It runs all tests once, to see which of them run which line. Then each mutant is a fork with one
changed function, which runs the tests of its line, first the quick ones and those that found most,
until one fails or `--seconds` are over. If none fails the mutant survives: add a test, or say in
tests/mutants.md why the change makes no difference. It changes neither text nor default values.

Exit status: 0 if tests/mutants.md names each mutant that survived, else 1.
"""

from __future__ import annotations

import argparse
import ast
import gc
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import coverage
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LIST = REPOSITORY / "tests" / "mutants.md"
MODULES = {
    "source": ["leases/ledger", "batches/commits", "log/state", "log/recovery"],
    "source/executors": ["plan", "closing", "recovery", "objects"],
    "sink/transaction": ["record", "listing"],
    "files": ["decide", "memory"],
}
FOLDERS = [
    *(f"tests/unit/{name}" for name in ("source", "sink", "files", "test_golden_bytes.py")),
    "tests/property",
]
HANGS_AFTER_S = 30.0
"""A mutant that has not ended so long after its time counts as noticed."""
HOUR_S = 3600.0

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}
LEFT_ALONE = {"annotation", "returns", "decorator_list", "defaults", "kw_defaults", "ctx"}

Function = tuple[str, str, int]
"""One that is in no other: its file, name and first line."""


class Mutant(NamedTuple):
    """A change of a function; `lines`: where, and where the statement begins."""

    name: str
    function: Function
    lines: tuple[int, int]
    code: CodeType


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Each change of a file, from top to bottom."""
    tree, seen = ast.parse(file.read_text(encoding="utf-8")), Counter[str]()

    def visit(parent: Any, path: str, function: Function | None, begins: int) -> Iterator[Mutant]:
        for field, held in ast.iter_fields(parent):
            nodes = held if isinstance(held, list) else [held]
            for at, node in enumerate([] if field in LEFT_ALONE else nodes):
                line = node.lineno if isinstance(node, ast.stmt) else begins
                for other in changes(node, parent, field) if function else ():
                    assert function
                    shown = node if hasattr(node, "lineno") else parent
                    before = ast.unparse(shown)
                    changed = ast.fix_missing_locations(ast.copy_location(other, shown))
                    put(parent, field, at, changed)
                    after = ast.unparse(changed if shown is node else parent)
                    name = f"{path}: {difference(before, after)}"
                    code = code_of(compile(tree, str(file), "exec"), function)
                    put(parent, field, at, node)
                    seen[name] += 1
                    name += f" ({seen[name]})" if seen[name] > 1 else ""
                    yield Mutant(name, function, (shown.lineno, line), code)
                inside, inner = path, function
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    inside = f"{path}.{node.name}"
                    if function is None and isinstance(node, ast.FunctionDef):
                        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                        inner = (str(file), node.name, first)
                if isinstance(node, ast.AST):
                    yield from visit(node, inside, inner, line)

    yield from visit(tree, f"{file.parent.name}/{file.stem}", None, 0)


def changes(node: Any, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    """What a node may be changed into."""
    if field in ("test", "ifs") and not isinstance(parent, ast.Assert):
        yield ast.Constant(False)
        if not isinstance(parent, ast.While):
            yield ast.Constant(True)
    if type(node) in OTHER:
        yield OTHER[type(node)]()
    match node:
        case ast.BoolOp(values=values):
            for rest in all_but_one(values):
                yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Name(id=name) if name in OTHER_NAME:
            yield ast.Name(OTHER_NAME[name], ast.Load())
        case ast.Call(keywords=[_, *_]):
            for rest in all_but_one(node.keywords):
                yield ast.Call(node.func, node.args, rest)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Delete() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            within = [each for target in targets for each in ast.walk(target)]
            if any(isinstance(each, ast.Attribute | ast.Subscript) for each in within):
                yield ast.Pass()


def all_but_one(nodes: list[Any]) -> list[list[Any]]:
    """The list without its first, without its second …"""
    return [nodes[:at] + nodes[at + 1 :] for at in range(len(nodes))]


def put(parent: ast.AST, field: str, at: int, node: ast.AST) -> None:
    """Put a node into a field, or to a place in it."""
    held = getattr(parent, field)
    if isinstance(held, list):
        held[at] = node
    else:
        setattr(parent, field, node)


def difference(before: str, after: str) -> str:
    """Both, cut to what is near their first difference."""
    begin = max(0, len(os.path.commonprefix([before, after])) - 30)  # noqa: RUF071
    texts = [" ".join(each[begin:].split()) for each in (before, after)]
    shown = [each if len(each) <= 70 else f"{each[:69]}…" for each in texts]
    return " → ".join(f"…{each}" if begin else each for each in shown)


def code_of(code: CodeType, function: Function) -> CodeType:
    """The code of a function in that of its file."""
    inner = [code]
    for each in inner:
        if (each.co_name, each.co_firstlineno) == function[1:]:
            return each
        inner += [const for const in each.co_consts if isinstance(const, CodeType)]
    raise LookupError(function)


class Runner:
    """A plugin of pytest: it runs the collected tests for each mutant."""

    def __init__(self, mutants: list[Mutant], seconds: float) -> None:
        self.survivors: list[Mutant] = []
        self._mutants = mutants
        self._seconds = seconds

    def pytest_configure(self) -> None:
        """The first example that fails is enough: to find a shorter one takes minutes."""
        from hypothesis import Phase, settings  # not before pytest, which rewrites its asserts

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", settings(), phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests once, then those of each mutant."""
        functions = defaultdict[Function, list[FunctionType]](list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                code = each.__code__
                functions[code.co_filename, code.co_name, code.co_firstlineno].append(each)
        began = time.monotonic()
        files = {mutant.function[0] for mutant in self._mutants}
        measured: Measured | None = in_a_child(lambda: measure(session, files), HOUR_S)
        if measured is None:
            pytest.exit("the tests of the unchanged package did not end", 1)
        tests_of, took, fail = measured
        print(
            f"{len(took)} tests took {time.monotonic() - began:.0f} s; these fail and are left out:"
        )
        print(*[f"  {session.items[at].nodeid}" for at in sorted(fail)], sep="\n", flush=True)
        found, seconds = Counter[int](), [0.0]
        for mutant in self._mutants:
            lines = [(mutant.function[0], line) for line in mutant.lines]
            tests = next((tests_of[line] for line in lines if line in tests_of), set[int]()) - fail
            order = sorted(tests, key=lambda at: -(found[at] + 0.1) / (took[at] + 0.01))

            def work(mutant: Mutant = mutant, order: list[int] = order) -> int:
                for each in functions[mutant.function]:
                    each.__code__ = mutant.code
                end = time.monotonic() + self._seconds
                for at, following in pairwise([*order, None]):
                    if time.monotonic() > end:
                        break
                    if not passes(session, at, following):
                        return at
                return -1

            began = time.monotonic()
            notices = in_a_child(work, self._seconds + HANGS_AFTER_S)
            seconds.append(time.monotonic() - began)
            if notices == -1:
                self.survivors.append(mutant)
                print(f"{mutant.name}  [line {lines[0][1]}, {len(tests)} tests]", flush=True)
            elif notices is not None:
                found[notices] += 1
        print(f"a mutant took {statistics.median(seconds):.1f} s, the slowest {max(seconds):.0f} s")
        return True


Measured = tuple[dict[tuple[str, int], set[int]], list[float], set[int]]


def measure(session: pytest.Session, files: set[str]) -> Measured:
    """Which tests run which line of which file, how long each takes, and which fail."""
    measuring = coverage.Coverage(data_file=None, config_file=False, include=sorted(files))
    took, fail = list[float](), set[int]()
    measuring.start()
    for at in range(len(session.items)):
        measuring.switch_context(str(at))
        began = time.monotonic()
        if not passes(session, at, at + 1 if at + 1 < len(session.items) else None):
            fail.add(at)
        took.append(time.monotonic() - began)
    measuring.stop()
    data = measuring.get_data()
    lines = {(file, line) for file in data.measured_files() for line in data.lines(file) or ()}
    by_file = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
    return (
        {(file, line): set(map(int, filter(None, by_file[file][line]))) for file, line in lines},
        took,
        fail,
    )


def passes(session: pytest.Session, at: int, following: int | None) -> bool:
    """Run a test; True if it passes or is skipped."""
    before = session.testsfailed
    after = None if following is None else session.items[following]
    session.config.hook.pytest_runtest_protocol(item=session.items[at], nextitem=after)
    return session.testsfailed == before


def in_a_child(work: Callable[[], Any], seconds: float) -> Any:
    """What work returns in a fork of this process; None if it ends without, or takes longer."""
    forked = multiprocessing.get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)

    def child() -> None:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sender.send(work())
        os._exit(0)

    process = forked.Process(target=child)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(seconds) else None
    except EOFError:
        return None
    finally:
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()


def main() -> int:
    """Try the mutants that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", default=[""], help="parts of names: ledger, log/state"
    )
    parser.add_argument("--every", type=int, default=1, help="take only each so-manieth mutant")
    parser.add_argument("--first", type=int, default=0, help="so many are left out before")
    parser.add_argument("--named", default="", help="only mutants with this in their names")
    parser.add_argument("--seconds", type=float, default=30.0, help="for the tests of a mutant")
    parser.add_argument("--tests", nargs="+", default=FOLDERS, help="files and folders of tests")
    given = parser.parse_args()
    os.environ.setdefault("AZQUEUE_EXAMPLES", "2")
    tried = list[Mutant]()
    for module in [f"{folder}/{name}" for folder, names in MODULES.items() for name in names]:
        if any(word in module for word in given.modules):
            found = list(mutants_of(REPOSITORY / "spark_azqueue" / f"{module}.py"))
            chosen = [each for each in found if given.named in each.name]
            tried += chosen[given.first :: given.every]
            print(f"{module}: {len(found)} mutants", flush=True)
    runner = Runner(tried, given.seconds)
    with tempfile.TemporaryDirectory() as folder:
        words = ["-q", "-s", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
        pytest.main([*words, "-m", "not long and not more", *given.tests], plugins=[runner])
    known = LIST.read_text(encoding="utf-8") if LIST.exists() else ""
    fresh = [each.name for each in runner.survivors if f"`{each.name}`" not in known]
    print(
        f"{len(tried)} mutants, {len(runner.survivors)} survived; not in tests/mutants.md:",
        *fresh,
        sep="\n  ",
    )
    return 1 if fresh else 0


if __name__ == "__main__":
    sys.exit(main())
