"""Spark's readers over a container that is a dict, with Spark's errors as Py4J gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, SparkRuntimeException

from spark_azqueue.files.decide import Look
from spark_azqueue.files.rules import Root

FAILED = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file x."


@dataclass
class Java:
    """An exception of Java, as Py4J gives it."""

    name: str
    message: str = ""
    cause: Java | None = None

    def getClass(self) -> Java:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> Java | None:
        return self.cause


def sparks_error(*causes: tuple[str, str], text: str = "") -> SparkRuntimeException:
    """An error of Spark. causes: classes and messages, outermost first. text: beside these."""
    found: Java | None = None
    for name, message in reversed(causes):
        found = Java(name, message, found)
    lines = [causes[0][1] if causes else "", text, *(f"Caused by: {n}: {m}" for n, m in causes[1:])]
    error = SparkRuntimeException("\n".join(lines))
    setattr(error, "_origin", found)  # noqa: B010 (as PySpark does)
    return error


def cannot_read(cause: str, message: str, text: str = "") -> SparkRuntimeException:
    """Spark's error of a file that it could not read."""
    return sparks_error(("org.apache.spark.SparkException", FAILED), (cause, message), text=text)


def refused(condition: str, message: str = "x") -> AnalysisException:
    """Spark's error before it reads anything."""
    error = AnalysisException(f"[{condition}] {message}")
    error.getCondition = lambda: condition  # type: ignore[method-assign]
    return error


FORGED = "Malformed: {\nCaused by: java.net.SocketTimeoutException: [PATH_NOT_FOUND] x"
"""What a broken file says of itself, so that Spark's error has it."""


NO_CREDENTIAL = sparks_error(("org.apache.hadoop.fs.azurebfs.KeyProviderException", "x"))


@dataclass
class Thing:
    """What is at a path. kind: good, broken, forged, empty, folder or locked."""

    kind: str
    version: str = ""

    def error(self, bytes_alone: bool) -> Exception | None:
        """Spark's error when it reads this."""
        if self.kind == "locked":
            return cannot_read("java.io.FileNotFoundException", "x (Permission denied)")
        if bytes_alone or self.kind not in ("broken", "forged"):
            return None
        text = FORGED if self.kind == "forged" else ""
        return cannot_read("com.fasterxml.jackson.core.JsonParseException", "no JSON", text)


@dataclass
class Container:
    """Stands for the Spark session, and for the file system below it. things: by path.

    only_spark: Hadoop in the driver has no credential, Spark's readers have. hiccup: nobody can
    look for a while, and a file can be read again a moment later.
    """

    root: Root
    things: dict[str, Thing] = field(default_factory=dict)
    reads: int = 0
    only_spark: bool = False
    hiccup: bool = False

    @property
    def read(self) -> Reading:
        return Reading(self)

    def below(self, path: str) -> Mapping[str, Thing]:
        """What Spark reads at this path: a folder is all that is in it."""
        thing = self.things.get(path)
        if not path:
            return self.things
        if thing is not None and thing.kind == "folder":
            return {name: t for name, t in self.things.items() if name.startswith(path + "/")}
        return {path: thing} if thing else {}

    def looks(self, spark: object, paths: Sequence[str]) -> list[Look]:
        if self.only_spark or self.hiccup:
            return [Look.UNKNOWN] * len(paths)
        kinds = {"folder": Look.NO_FILE, "empty": Look.EMPTY}
        found = [self.things.get(path.removeprefix(self.root.spark)) for path in paths]
        return [kinds.get(each.kind, Look.FILE) if each else Look.GONE for each in found]

    def is_there(self, spark: object, root: str) -> bool:
        if self.only_spark or self.hiccup:
            raise NO_CREDENTIAL
        return root == self.root.spark


class Reader:
    """A reader of Spark, its DataFrame and the writer of that. Says of itself what it was told."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.bytes_alone = False
        self.paths: list[str] = []

    def format(self, name: str) -> Reader:
        self.bytes_alone = self.bytes_alone or name == "binaryFile"
        return self

    def load(self, paths: list[str]) -> Reader:
        self.paths = [path.removeprefix(self.root.spark) for path in paths]
        return self

    def itself(self, *given: str, **more: str) -> Reader:
        return self

    options = schema = select = mode = itself
    write = property(itself)


class Reading(Reader):
    """Reads what is in a container."""

    def __init__(self, container: Container) -> None:
        super().__init__(container.root)
        self.container = container

    def load(self, paths: list[str]) -> Reader:
        super().load(paths)
        for path in self.paths:
            if path and path not in self.container.things:
                raise refused("PATH_NOT_FOUND", path)
        return self

    def save(self) -> None:
        self.rows()

    def toLocalIterator(self) -> list[dict[str, Any]]:
        """As of `binaryFile`, which has no row for an empty file."""
        root, container = self.container.root.spark, self.container
        if container.hiccup:
            raise NO_CREDENTIAL
        things = {n: t for path in self.paths for n, t in container.below(path).items()}
        return [{"path": root + n, "length": 1} for n, t in things.items() if t.kind != "empty"]

    def first(self) -> dict[str, Any] | None:
        return next(iter(self.toLocalIterator()), None)

    def rows(self) -> list[tuple[str, str]]:
        """Path and version of each file with contents."""
        self.container.reads += 1
        found: list[tuple[str, str]] = []
        for path in self.paths:
            for name, thing in self.container.below(path).items():
                if error := thing.error(self.bytes_alone):
                    raise error
                if thing.kind in ("good", "broken", "forged"):
                    found.append((name, thing.version))
        return found
