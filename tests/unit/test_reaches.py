"""Nobody reaches into another object: a name with a leading underscore is its owner's alone.

Two exceptions: a test may patch a private constant or function of a module, and Spark and the
standard library have no public way to a few things.
"""

import ast
from pathlib import Path

import spark_azqueue

ROOT = Path(spark_azqueue.__file__).parent.parent
FOLDERS = ("spark_azqueue", "tests")

# What a NamedTuple has in place of methods without an underscore.
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}

# Private names of others that we use, and where.
OF_OTHERS = {
    "_jsc": "pyspark.SparkContext",
    "_jsq": "pyspark.sql.streaming.StreamingQuery",
    "_plan": "pyspark.sql.connect.dataframe.DataFrame",
    "_desc": "pyspark.errors.exceptions.captured.CapturedException",
    "_clear_cache": "logging.Manager",
    "_ntuple_diskusage": "shutil",
}

OWNERS = {"self", "cls", "super()"}


def files():
    return sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))


def is_private(name):
    if not isinstance(name, str) or not name.isidentifier():
        return False
    is_ours = name not in OF_TUPLES and name not in OF_OTHERS
    return name.startswith("_") and name.strip("_") != "" and name[:2] != "__" and is_ours


def modules_in(tree):
    """The names that stand for modules in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            folder = ROOT.joinpath(*str(node.module).split("."))
            for alias in node.names:
                if (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir():
                    yield alias.asname or alias.name


def reaches_in(text):
    """Each reach of a file: its line, whom it reaches into, and the private name."""
    tree = ast.parse(text)
    modules = set(modules_in(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in OWNERS:
                yield node.lineno, owner, node.attr
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if is_private(alias.name):
                    yield node.lineno, "." * node.level + (node.module or ""), alias.name
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            called = ast.unparse(node.func).rpartition(".")[2]
            owner, name = node.args[0], node.args[1]
            if called not in ("getattr", "setattr", "delattr", "hasattr"):
                continue
            if isinstance(owner, ast.Constant) or ast.unparse(owner) in OWNERS | modules:
                continue
            if isinstance(name, ast.Constant) and is_private(name.value):
                yield node.lineno, ast.unparse(owner), name.value


def test_nobody_reaches_into_another_object():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {owner}.{name}"
        for path in files()
        for line, owner, name in reaches_in(path.read_text())
    ]
    assert found == []


def test_every_exception_is_used():
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.value
        for path in files()
        if path != Path(__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Constant)
    }
    assert set(OF_OTHERS) <= used


def test_the_walk_sees_every_kind_of_reach():
    text = (
        "import a.b, c\n"
        "from spark_azqueue import errors\n"
        "from spark_azqueue.errors import _told\n"
        "class D:\n"
        "    def e(self, f):\n"
        "        self._g = super()._h + cls._i + f.__j__\n"
        "        self._g._k()\n"
        "        f._l = c._m\n"
        "        return f._replace(n=f._jsq)\n"
        "def test(monkeypatch, o):\n"
        "    monkeypatch.setattr(errors, '_told', 1)\n"
        "    monkeypatch.setattr(a.b, '_told', 1)\n"
        "    monkeypatch.setattr('spark_azqueue.errors._told', 1)\n"
        "    monkeypatch.setattr(o, '_p', 1)\n"
        "    monkeypatch.setattr(o, 'q', getattr(o, '_r', 1))\n"
    )

    assert sorted(reaches_in(text)) == [
        (3, "spark_azqueue.errors", "_told"),
        (7, "self._g", "_k"),
        (8, "c", "_m"),
        (8, "f", "_l"),
        (14, "o", "_p"),
        (15, "o", "_r"),
    ]
