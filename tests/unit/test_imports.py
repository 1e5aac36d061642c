"""Who may import whom: one table for our packages, one for foreign libraries."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spark_azqueue

PACKAGE = Path(spark_azqueue.__file__).parent
ROOT = PACKAGE.parent

# A module imports its own package, and packages of the lines above its own. No two packages of one
# line know each other. Inside a package the order of its modules' folders is the same kind of list.
ORDER = [
    ["conditions"],
    ["errors", "version", "metrics"],
    ["explanation"],
    ["service"],
    ["options"],
    ["source", "sink", "eventgrid"],
    ["doctor"],
    [
        *("datasource", "prometheus", "listening", "events", "settlement", "supervisor"),
        "opentelemetry",
        "__main__",
    ],
    ["__init__"],
]
INSIDE = {
    "service": [
        ["redaction", "fields", "names", "account", "workers", "garbage", "lanes", "markup"],
        ["messages", "answers", "retry", "network", "incoming", "databricks"],
        ["providers", "signing"],
        ["credentials"],
        ["queues", "sdk"],
        ["blobs"],
    ],
    "source": [
        ["columns", "packing", "backlog", "offsets", "partitions", "compression"],
        ["leases", "rows"],
        ["large_bodies", "preflight", "peek"],
        ["queues", "batches"],
        ["drain"],
        ["engine"],
        ["restored"],
        ["stream_consumer"],
        ["consumer", "log"],
        ["readers"],
    ],
}

# Of some packages, another one may import a part only.
PARTS = {("doctor", "source"): ["source.log"], ("doctor", "sink"): []}

# Foreign libraries, and the modules that may use them (a folder stands for all that is in it).
LIBRARIES = {
    "pyspark": [
        *("datasource", "source.readers", "sink.writers", "metrics.listener", "doctor"),
        *("eventgrid", "events", "settlement"),
    ],
    "pycurl": ["service.network", "service.queues", "service.sdk.exchange"],
    "certifi": ["service.network"],
    "requests": ["service.sdk.http"],
    "urllib3": ["service.sdk.http"],
    "azure.core": [
        "service.credentials",
        "service.providers",
        "service.sdk",
        "service.blobs",
        "service.queues.management",
    ],
    "databricks": ["service.databricks"],
    "azure.identity": ["service.credentials"],
    "azure.storage.queue": ["service.queues.management"],
    "azure.storage.blob": [
        "service.blobs.store",
        "service.blobs.container",
        "service.blobs.protection",
    ],
    "tenacity": ["service.retry"],
    "pyarrow": [
        "source.compression",
        "source.rows",
        "source.large_bodies",
        "source.log.segment",
        "source.readers",
        "sink.writers",
    ],
    "prometheus_client": ["prometheus"],
    "opentelemetry": ["opentelemetry"],
}

# What decides and computes uses the standard library only.
PURE = [
    *(
        "errors",
        "conditions",
        "explanation",
        "supervisor",
        "version",
        "metrics.report",
        "metrics.figures",
        "metrics.names",
        "metrics.activity",
        "options",
        "doctor.finding",
    ),
    *("service.account", "service.messages", "service.fields", "service.redaction"),
    *("service.answers", "service.incoming", "service.names", "service.garbage", "service.lanes"),
    "service.signing",
    "service.markup",
    *("service.queues.limits", "service.queues.concurrency", "service.queues.rate"),
    *("service.blobs.references", "service.blobs.listing"),
    *("source.columns", "source.offsets", "source.packing", "source.partitions"),
    *("source.leases.ledger", "source.leases.owed", "source.leases.states"),
    *("source.leases.schedule", "source.leases.timing"),
    *("source.batches.commits", "source.batches.poison", "source.batches.polling"),
    *("source.batches.available_now", "source.batches.bare_calls", "source.batches.size"),
    *("source.log.store", "source.log.names", "source.log.header", "source.log.columns"),
    *("source.log.known", "source.log.offsets", "source.log.standing", "source.log.identity"),
    *(
        "sink.columns",
        "sink.dead_letters",
        "sink.events",
        "sink.receipts",
        "sink.requests",
        "sink.row_errors",
        "sink.rows",
    ),
]


def modules():
    paths = (p for p in PACKAGE.rglob("*.py") if "testing" not in p.relative_to(PACKAGE).parts)
    return sorted(paths)


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def is_in(name, place):
    return name == place or name.startswith(place + ".")


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
            folder = ROOT.joinpath(*module.split("."))
            for alias in node.names:
                is_module = folder.is_dir() and (
                    (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
                )
                yield f"{module}.{alias.name}" if is_module else module
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return set(visit(ast.parse(path.read_text())))


def imported(path):
    parent = path.relative_to(ROOT).parent
    return imports_of(path, ".".join(parent.parts))


def own(path):
    """Our own modules that this one imports, without `spark_azqueue.`"""
    start = "spark_azqueue."
    names = {name.removeprefix(start) for name in imported(path) if name.startswith(start)}
    return names - {name_of(path)}


def foreign(names):
    """Names of what is neither ours nor Python's."""
    skipped = set(sys.stdlib_module_names) | {"spark_azqueue", "__future__"}
    return {name for name in names if name.partition(".")[0] not in skipped}


def line_of(order, name):
    return next(n for n, line in enumerate(order) if any(is_in(name, place) for place in line))


def allowed_inside(order, name, other):
    """Whether `name` may import `other`, both of one package, by its list."""
    here, there = line_of(order, name), line_of(order, other)
    return there < here or name.partition(".")[0] == other.partition(".")[0] or here == there


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_packages_import_packages_above_them(path):
    name = name_of(path)
    top = name.partition(".")[0]
    outwards = {
        other
        for other in own(path)
        if (there := other.partition(".")[0]) != top
        and line_of(ORDER, there) >= line_of(ORDER, top)
        and not (there in ("errors", "version") and top in ("metrics", "errors"))
    }
    assert outwards == set()


@pytest.mark.parametrize(("package", "other"), sorted(PARTS))
def test_of_some_packages_a_part_is_for_others(package, other):
    for path in modules():
        if is_in(name_of(path), package):
            used = {each for each in own(path) if is_in(each, other)}
            parts = PARTS[package, other]
            assert {each for each in used if not any(is_in(each, part) for part in parts)} == set()


@pytest.mark.parametrize("package", sorted(INSIDE))
def test_inside_a_package_imports_have_one_direction(package):
    start = package + "."
    order = INSIDE[package]
    for path in modules():
        name = name_of(path)
        if not name.startswith(start):
            continue
        others = {o.removeprefix(start) for o in own(path) if o.startswith(start)}
        wrong = {o for o in others if not allowed_inside(order, name.removeprefix(start), o)}
        assert wrong == set(), name


def test_no_two_modules_import_each_other():
    graph = {name_of(path): own(path) for path in modules()}

    def reaches(name, goal, seen):
        for other in graph.get(name, ()):
            if other == goal:
                return True
            if other not in seen:
                seen.add(other)
                if reaches(other, goal, seen):
                    return True
        return False

    circles = [name for name in graph if name != "__init__" and reaches(name, name, set())]
    assert circles == []


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_one_library_has_few_places(path):
    name = name_of(path)
    for library in foreign(imported(path)):
        known = next((k for k in LIBRARIES if is_in(library, k)), None)
        assert known, f"{library} is in no line of LIBRARIES"
        assert any(is_in(name, place) for place in LIBRARIES[known]), f"{name} imports {library}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_what_decides_needs_nothing_but_python(path):
    name = name_of(path)
    if any(is_in(name, place) for place in PURE):
        assert foreign(imported(path)) == set()


def test_a_package_has_a_docstring_and_no_import():
    for path in modules():
        if path.stem == "__init__" and path.parent != PACKAGE:
            tree = ast.parse(path.read_text())
            assert ast.get_docstring(tree)
            assert len(tree.body) == 1


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
        "import a.b, c\nfrom d import e\nfrom . import errors\nfrom .g import h\n"
        "from spark_azqueue import options\n"
        "def late():\n    import j\n"
        "if TYPE_CHECKING:\n    import k\nelse:\n    import l\n"
    )

    assert imports_of(file, "spark_azqueue") == {
        *("a.b", "c", "d", "spark_azqueue.errors", "spark_azqueue.g"),
        *("spark_azqueue.options", "j", "l"),
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
    "opentelemetry",
)


def test_what_decides_and_the_test_kit_load_if_nothing_else_is_installed():
    pure = [name for name in map(name_of, modules()) if any(is_in(name, p) for p in PURE)]
    names = [f"spark_azqueue.{name}" for name in pure] + ["spark_azqueue.testing"]

    run("".join(f"import {name}\n" for name in names), *THIRD_PARTY)


def test_what_is_no_door_loads_if_spark_is_not_installed():
    doors = LIBRARIES["pyspark"]
    names = [
        f"spark_azqueue.{name}"
        for name in map(name_of, modules())
        if name not in ("__main__", "listening", "prometheus", "opentelemetry", "__init__")
        and not any(is_in(name, door) for door in doors if door != "doctor")
    ]

    run("".join(f"import {name}\n" for name in names), "pyspark")


@pytest.mark.parametrize("blocked", [("pyspark",), ("azure",), ("pycurl", "pyarrow"), ()])
def test_sparks_search_for_sources_never_fails_because_of_us(blocked):
    said = run("import pyspark_azqueue as p; print(hasattr(p, 'DefaultSource'))", *blocked)

    assert said.strip() == str(not blocked)
