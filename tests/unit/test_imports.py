"""What the import contracts and ruff's rules in pyproject.toml cannot hold."""

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter import api

import spark_azqueue

PACKAGE = Path(spark_azqueue.__file__).parent
ROOT = PACKAGE.parent


def test_every_library_stands_in_the_contracts():
    contracts = api.read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    graph = grimp.build_graph("spark_azqueue", include_external_packages=True, cache_dir=None)
    used = {name for name in graph.modules if not name.startswith("spark_azqueue")}

    assert used
    for contract in contracts:
        if "pyspark" in contract.get("forbidden_modules", ()):
            missing = used - {*contract["forbidden_modules"], *sys.stdlib_module_names}
            assert missing == set(), contract["name"]


def test_a_package_has_a_docstring_and_no_import():
    for path in sorted(PACKAGE.glob("*/**/__init__.py")):
        if path.parent.name not in ("errors", "files", "testing"):
            tree = ast.parse(path.read_text())
            assert ast.get_docstring(tree)
            assert len(tree.body) == 1, path


def private(name):
    return isinstance(name, str) and name[:1] == "_" and name[:2] != "__" and name.strip("_") != ""


def called(node):
    """The name of the function that this calls, without that of its owner."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def named_by_text(tree):
    """Private names that a file imports, or patches in something other than a module."""
    modules = {"self"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.name for each in node.names if private(each.name))
            folder = ROOT.joinpath(*(getattr(node, "module", None) or "").split("."))
            for each in node.names:
                is_module = (folder / f"{each.name}.py").exists() or (folder / each.name).is_dir()
                if is_module or isinstance(node, ast.Import):
                    modules.add(each.asname or each.name)
        elif isinstance(node, ast.Call) and called(node).endswith("attr"):
            owner, name = [*map(ast.unparse, node.args), "", ""][:2]
            if private(name.strip("'")) and owner not in modules and owner[0] != "'":
                yield f"{owner}.{name}"


def test_nobody_names_anothers_private_name_by_text():
    """Ruff's SLF001 sees attributes only. A test may patch a private name of a module."""
    # Of Spark's exceptions, sessions and files, and of shutil.
    theirs = ["each.'_desc'", "error.'_origin'", "spark.'_jsparkSession'", "_ntuple_diskusage"]
    theirs += ["files.'_root_directory'", "files.'_sc'", "failure.'_stackTrace'", "context.'_jvm'"]
    paths = [path for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
    found = [name for path in paths for name in named_by_text(ast.parse(path.read_text()))]

    assert [name for name in found if name not in theirs] == []


@pytest.mark.parametrize("blocked", [("pyspark",), ("azure",), ("pycurl", "pyarrow"), ()])
def test_sparks_search_for_sources_never_fails_because_of_us(blocked):
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({blocked!r}))\n"  # None: importing it fails
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import pyspark_azqueue as p; print(hasattr(p, 'DefaultSource'))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(blocked in ((), ("azure",))), "azure is for tokens alone"


def test_the_doctor_loads_if_spark_is_not_installed():
    module = "spark_azqueue.commands.doctor.command_line"
    code = f"import sys; sys.modules['pyspark'] = None; import {module}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


def test_each_class_name_occurs_once():
    """A name says whose it is: no reader has to ask which `Record` is meant."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))

    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def public_names(path):
    """The functions and constants of a module that others may import, but for its logger."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for each in targets:
            each = getattr(each, "target", each)
            name = getattr(each, "id", "") or getattr(each, "name", "")
            is_class = isinstance(node, ast.ClassDef)
            if not (is_class or name.startswith("_") or name == "log" or len(name) < 2):
                yield name


def test_each_public_function_and_constant_of_a_log_or_a_mode_has_a_name_of_its_own():
    """Who meets `decode` in a call knows which: what a segment, a slot and a body are differs."""
    found: dict[str, list[str]] = {}
    for folder in ("journal", "source", "sink"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            for name in public_names(path):
                found.setdefault(name, []).append(str(path.relative_to(PACKAGE)))

    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


LOG_ERRORS = {"LogDamaged", "LostSegment", "LogConflict", "LateSegment", "LogUnavailable"}
LOG_ERRORS |= {"CheckpointMismatch"}
LOG_ERRORS |= {"TransactionConflict", "TransactionUnknown", "TransactionExpired"}


def test_what_a_log_refuses_is_said_in_the_room_for_it():
    """The flow reads `raise lost_slot(…)`; the sentences stand together, so each is said once."""
    made = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and called(node) in LOG_ERRORS
    }

    assert made == {
        "files/refusals.py",
        "journal/refusals.py",
        "sink/transaction/refusals.py",
        "source/refusals.py",
    }
