"""Rows of about 800 bytes through one queue: one in a message, and many in a message.

A round writes rows from a Parquet table into a queue, and reads the queue into Parquet. mode: plain
(a row as JSON in a message of its own), arrow or json (`pack` and `unpack`).

python benchmarks/packed.py NAME SERVER_URL     (a round of work for each line of JSON)
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import harness
import spark
from cost import Cost
from harness import CORES, Server
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_azqueue.rows.packing.dataframes import pack, unpack

SCHEMA = "order_id BIGINT, customer STRING, at TIMESTAMP, total DECIMAL(10,2), note STRING"
_WORDS = 2_000
_NOTE_WORDS = 86


class Rounds:
    """Each writes and reads one queue. What counts as a message in the figures is a row."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._spark = spark.session(folder)
        self._number = 0

    def __call__(self, server: Server, rows: int, mode: str) -> dict[str, Any]:
        self._number += 1
        queue, place = f"packed-{self._number}", self._folder / str(self._number)
        server.fill(queue, 0)
        given = self._table(rows)
        account = {"secret.connectionString": server.connection_string, "queue": queue}
        body = sf.to_json(sf.struct("*")).alias("body")
        sent = given.select(body) if mode == "plain" else pack(given, format=mode)
        cost = Cost(server)
        sent.write.format("azqueue").mode("append").options(**account).save()
        written = cost.so_far() | {"messages": rows, "sent": server.left(queue)}
        read = self._read(server, queue, account, mode, rows, place)
        found = self._spark.read.parquet(str(place / "out"))
        assert found.count() == found.select("order_id").distinct().count() == rows
        server.drop(queue)
        return {"write": written, "read": read}

    def _read(
        self,
        server: Server,
        queue: str,
        account: dict[str, str],
        mode: str,
        rows: int,
        place: Path,
    ) -> dict[str, Any]:
        """Read it to the end. The account begins behind the first batch: a start is no speed."""
        loaded = self._spark.readStream.format("azqueue").options(**account).load()
        writer = _opened(loaded, mode).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(place / "c")).option(
            "path", str(place / "out")
        )
        total = server.left(queue)
        query = writer.start()
        try:
            harness.wait_until(lambda: server.left(queue) < total, "a batch", 600)
            left, cost = server.left(queue), Cost(server)

            def is_read() -> bool:
                if failed := query.exception():
                    raise RuntimeError(str(failed))
                cost.note()
                time.sleep(0.05)
                return server.left(queue) == 0

            harness.wait_until(is_read, "all deletes", 1200)
            saw = cost.so_far()
        finally:
            query.stop()
        return saw | {"messages": rows * left // total, "sent": left}

    def _table(self, rows: int) -> DataFrame:
        """So many rows, as a table: made once, so that no round makes them."""
        path = str(self._folder / f"rows-{rows}")
        if not Path(path).exists():
            chance = random.Random(1)
            letters = "abcdefghijklmnopqrstuvwxyz"
            words = [
                "".join(chance.choices(letters, k=chance.randrange(3, 12))) for _ in range(_WORDS)
            ]
            many = "array(" + ",".join(f"'{word}'" for word in words) + ")"
            note = (
                f"concat_ws(' ', transform(sequence(1, {_NOTE_WORDS}),"
                f" i -> element_at({many}, 1 + pmod(hash(id, i), {_WORDS}))))"
            )
            self._spark.range(0, rows, 1, CORES).selectExpr(
                "id AS order_id",
                "concat('customer-', pmod(hash(id), 100000)) AS customer",
                "timestamp_micros(1700000000000000 + id * 977) AS at",
                "cast(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS total",
                f"{note} AS note",
            ).write.parquet(path)
        return self._spark.read.parquet(path)


def _opened(loaded: DataFrame, mode: str) -> DataFrame:
    if mode == "plain":
        return loaded.select(sf.from_json("body", SCHEMA).alias("o")).select("o.*")
    return unpack(loaded, SCHEMA)


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    _, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = Rounds(folder)
        harness.answer({"ready": True})
        for work in harness.rounds():
            harness.answer(run(server, **work))


if __name__ == "__main__":
    main()
