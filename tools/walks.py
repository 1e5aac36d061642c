"""Prints through how many files a message goes, in the modes of source, sink and commands.

    python tools/walks.py

It runs each walk against the fake service, and counts the files of the package that are entered,
and the pairs of files that call each other both ways. Threads count, imports do not. To compare
with an older commit: `git worktree add ../older COMMIT`, and `--root ../older`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

Walk = Callable[[Any, dict[str, str], Path], None]


class Trace:
    """Which file of the package calls which, in all threads."""

    def __init__(self, package: str) -> None:
        self._package = package
        self.pairs: set[tuple[str, str]] = set()
        self.files: set[str] = set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace what is called in this block."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    @property
    def both_ways(self) -> int:
        """Pairs of files that call each other."""
        return sum((b, a) in self.pairs for a, b in self.pairs if a < b)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not self._is_ours(name) or frame.f_code.co_name == "<module>":
            return
        self.files.add(name)
        before = frame.f_back
        if (
            before
            and before.f_code.co_filename != name
            and self._is_ours(before.f_code.co_filename)
        ):
            self.pairs.add((before.f_code.co_filename, name))

    def _is_ours(self, file: str) -> bool:
        return file.startswith(self._package) and "/testing/" not in file


def source(service: Any, options: dict[str, str], folder: Path) -> None:
    """A batch is planned, read and committed, and an empty one follows."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import StringType, StructField, StructType

    from spark_azqueue import AzQueueDataSource

    service.put_many("orders", ["a", "b"])
    made = AzQueueDataSource(options)
    columns = [StructField(name, StringType()) for name in ("message_id", "body")]
    reader: Any = made.streamReader(StructType(columns))
    start = reader.initialOffset()
    for _ in range(2):
        end = reader.latestOffset(start, ReadAllAvailable())
        if end != start:
            for part in reader.partitions(start, end):
                [*reader.read(part)]
        reader.commit(end)
        start = end
    reader.stop()


def with_log(service: Any, options: dict[str, str], folder: Path) -> None:
    """The same with a log on the driver."""
    source(service, {**options, "writeAheadLog": f"file:{folder}/log"}, folder)


def on_executors(service: Any, options: dict[str, str], folder: Path) -> None:
    """The same, and tasks lease."""
    log = {"writeAheadLog": f"file:{folder}/log", "leaseOn": "executors", "deleteAfter": "log"}
    source(service, {**options, **log}, folder)


def by_transaction(service: Any, options: dict[str, str], folder: Path) -> None:
    """A row is written by a transaction."""
    import pyarrow
    from pyspark.sql.types import StringType, StructField, StructType

    from spark_azqueue import AzQueueDataSource

    schema = StructType([StructField("body", StringType())])
    more = {"transactionLog": f"file:{folder}/log", "txnAppId": "walk", "txnVersion": "1"}
    writer: Any = AzQueueDataSource({**options, **more}).writer(schema, overwrite=False)
    writer.commit([writer.write(iter([pyarrow.RecordBatch.from_pydict({"body": ["a"]})]))])


def move(service: Any, options: dict[str, str], folder: Path) -> None:
    """A message is moved to another queue."""
    from spark_azqueue.commands.command_line import main as run

    service.put_many("orders", ["a", "b"])
    given = ["--option", f"secret.connectionString={options['secret.connectionString']}"]
    if run(["move", "orders", "--to", "other", "--execute", *given]):
        raise SystemExit("move failed")


WALKS: dict[str, Walk] = {
    "a message, without a log": source,
    "with a log": with_log,
    "on executors": on_executors,
    "a row, by transaction": by_transaction,
    "`move`": move,
}


def main() -> None:
    """Print a table."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    root = given.parse_args().root.resolve()
    sys.path.insert(0, str(root))
    from spark_azqueue.testing import FakeQueueService

    print("| walk | files | pairs that call both ways |\n|---|---:|---:|")
    for name, walk in WALKS.items():
        _run(walk, FakeQueueService, nullcontext())  # what a first call imports is no part of it
        trace = Trace(f"{root}/spark_azqueue/")
        _run(walk, FakeQueueService, trace.running())
        print(f"| {name} | {len(trace.files)} | {trace.both_ways} |")


def _run(
    walk: Walk, make_service: Callable[[], Any], context: AbstractContextManager[None]
) -> None:
    with tempfile.TemporaryDirectory() as folder, make_service() as service:
        service.create_queue("orders")
        service.create_queue("other")
        options = {"secret.connectionString": service.connection_string, "queue": "orders"}
        with context, redirect_stdout(StringIO()):
            walk(service, options, Path(folder))


if __name__ == "__main__":
    main()
