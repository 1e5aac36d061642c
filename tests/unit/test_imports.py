"""Imports point inwards only: door to edge to core. Each module's docstring tells its ring."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spark_azqueue

PACKAGE = Path(spark_azqueue.__file__).parent
ROOT = PACKAGE.parent

# What has no docstring of its own to tell: it must be usable everywhere.
RINGS = {"__init__": "core", "version": "core"}
ALLOWED = {"core": {"core"}, "edge": {"core", "edge"}, "door": {"core", "edge", "door"}}


def modules():
    return sorted(path for path in PACKAGE.glob("*.py"))


def ring_of(path):
    told = re.search(r"\bRing: (\w+)", ast.get_docstring(ast.parse(path.read_text())) or "")
    return told[1] if told else RINGS.get(path.stem)


def imports_of(path, package):
    """Names of all modules that a file imports, in functions too; not those for types only."""

    def visit(node):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from visit(other)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join(base) if node.level else ""
            module = ".".join(filter(None, [start, node.module]))
            if node.module is None or module == "spark_azqueue":
                for alias in node.names:
                    yield f"{module}.{alias.name}"
            else:
                yield module
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return set(visit(ast.parse(path.read_text())))


def imported(path):
    return imports_of(path, "spark_azqueue")


def own_modules(names):
    """Those of our own, by their bare name."""
    return {name.split(".")[1] for name in names if name.startswith("spark_azqueue.")}


def foreign(names):
    """Top-level names of what is neither ours nor Python's."""
    tops = {name.partition(".")[0] for name in names}
    return tops - {"spark_azqueue"} - set(sys.stdlib_module_names) - {"__future__"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_every_module_tells_its_ring(path):
    assert ring_of(path) in ALLOWED, f"say in the docstring of {path.name}: 'Ring: core|edge|door'"


@pytest.mark.parametrize(
    "path", [p for p in modules() if p.stem != "__init__"], ids=lambda path: path.stem
)
def test_a_module_imports_from_its_own_ring_and_inwards(path):
    by_name = {other.stem: ring_of(other) for other in modules()}
    own = own_modules(imported(path))

    assert own <= by_name.keys()  # the test kit is for tests
    outwards = {name for name in own if by_name[name] not in ALLOWED[ring_of(path)]}
    assert outwards == set()


@pytest.mark.parametrize(
    "path", [p for p in modules() if ring_of(p) == "core"], ids=lambda path: path.stem
)
def test_the_core_needs_nothing_but_python(path):
    assert foreign(imported(path)) == set()


@pytest.mark.parametrize(
    "path", [p for p in modules() if ring_of(p) == "edge"], ids=lambda path: path.stem
)
def test_the_edge_knows_no_spark(path):
    assert "pyspark" not in foreign(imported(path))


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "testing").glob("*.py")), ids=lambda path: path.stem
)
def test_the_test_kit_needs_only_python_and_itself(path):
    names = imports_of(path, "spark_azqueue.testing")

    assert foreign(names) == set()
    assert {name for name in names if name.startswith("spark_azqueue")} == {
        name for name in names if name.startswith("spark_azqueue.testing")
    }


def test_the_walk_sees_every_kind_of_import(tmp_path):
    file = tmp_path / "sample.py"
    file.write_text(
        "import a.b, c\nfrom d import e\nfrom . import f\nfrom .g import h\n"
        "from spark_azqueue import i\n"
        "def late():\n    import j\n"
        "if TYPE_CHECKING:\n    import k\nelse:\n    import l\n"
    )

    assert imported(file) == {
        *("a.b", "c", "d", "spark_azqueue.f", "spark_azqueue.g", "spark_azqueue.i", "j", "l")
    }


BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
sys.path.insert(0, {root!r})
"""


def run(code, *blocked):
    text = BLOCK.format(blocked=set(blocked), root=str(ROOT)) + code
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


THIRD_PARTY = (
    "azure",
    "pyspark",
    "urllib3",
    "pycurl",
    "tenacity",
    "pyarrow",
    "requests",
    "pandas",
    "numpy",
    "prometheus_client",
)


def test_the_core_and_the_test_kit_load_where_nothing_else_is_installed():
    core = [f"spark_azqueue.{path.stem}" for path in modules() if ring_of(path) == "core"]
    names = [name.removesuffix(".__init__") for name in core] + ["spark_azqueue.testing"]

    run("".join(f"import {name}\n" for name in names), *THIRD_PARTY)


def test_the_edge_loads_where_spark_is_not_installed():
    names = [f"spark_azqueue.{path.stem}" for path in modules() if ring_of(path) == "edge"]

    run("".join(f"import {name}\n" for name in names), "pyspark")


@pytest.mark.parametrize("blocked", [("pyspark",), ("azure",), ("pycurl", "pyarrow"), ()])
def test_sparks_search_for_sources_never_fails_because_of_us(blocked):
    said = run("import pyspark_azqueue as p; print(hasattr(p, 'DefaultSource'))", *blocked)

    assert said.strip() == str(not blocked)
