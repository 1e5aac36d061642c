"""SQL, as far as Spark lets a source in Python have it (docs/cookbook.md); the modes of a write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def with_options(fake: FakeQueueService, queue: str) -> str:
    """What goes into OPTIONS (…) or WITH (…)."""
    fake.create_queue(queue)
    return f"(`secret.connectionString` '{fake.connection_string}', queue '{queue}')"


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """A name for a table or view, which is dropped afterwards."""
    made = f"t_{uuid.uuid4().hex[:12]}"
    yield made
    spark.catalog.dropTempView(made)
    spark.sql(f"DROP TABLE IF EXISTS {made}")


def texts(fake: FakeQueueService, queue: str) -> list[str]:
    return sorted(view.text for view in fake.messages(queue))


def test_a_view_is_read_and_written(
    spark: SparkSession, fake: FakeQueueService, queue: str, name: str, with_options: str
) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW {name} (body string) USING azqueue OPTIONS {with_options}")
    spark.sql(f"INSERT INTO {name} VALUES ('a'), ('b')")
    spark.sql(f"INSERT INTO {name} SELECT concat('c', id) FROM range(2)")

    assert texts(fake, queue) == ["a", "b", "c0", "c1"]
    rows = spark.sql(f"SELECT body FROM {name} WHERE body LIKE 'c%' ORDER BY body").collect()
    assert [row.body for row in rows] == ["c0", "c1"]
    assert fake.visible(queue) == 4, "a look leases nothing"


def test_a_view_without_columns_has_those_of_the_source(
    spark: SparkSession, fake: FakeQueueService, queue: str, name: str, with_options: str
) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING azqueue OPTIONS {with_options}")
    fake.put(queue, "hello")

    (row,) = spark.sql(f"SELECT body, queue, dequeue_count, pop_receipt FROM {name}").collect()
    assert row.asDict() == {"body": "hello", "queue": queue, "dequeue_count": 0} | {
        "pop_receipt": None
    }


def test_a_table_is_read_and_written_with_options_in_the_statement(
    spark: SparkSession, fake: FakeQueueService, queue: str, name: str, with_options: str
) -> None:
    spark.sql(f"CREATE TABLE {name} (body string, visibility_delay int) USING azqueue")
    spark.sql(f"INSERT INTO {name} WITH {with_options} VALUES ('later', 60)")
    spark.sql(f"INSERT INTO {name} WITH {with_options} VALUES ('now', NULL)")

    assert texts(fake, queue) == ["later", "now"]
    assert fake.visible(queue) == 1
    spark.sql(f"DROP TABLE {name}")
    spark.sql(f"CREATE TABLE {name} USING azqueue OPTIONS {with_options}")
    (row,) = spark.sql(f"SELECT body, queue FROM {name} WITH {with_options}").collect()
    assert (row.body, row.queue) == ("now", queue)


def test_a_table_whose_options_spark_keeps_to_itself_says_what_to_do(
    spark: SparkSession, fake: FakeQueueService, queue: str, name: str, with_options: str
) -> None:
    spark.sql(f"CREATE TABLE {name} (body string) USING azqueue OPTIONS {with_options}")
    for statement in (f"SELECT * FROM {name}", f"INSERT INTO {name} VALUES ('a')"):
        with pytest.raises(AnalysisException, match=r"Is it of a table.*WITH .queue 'orders'"):
            spark.sql(statement).collect()


def test_a_table_with_a_mistake_is_refused_when_it_is_created(
    spark: SparkSession, name: str, with_options: str
) -> None:
    options = with_options.replace("queue '", "nonsense 'x', queue '")
    with pytest.raises(AnalysisException, match="unknown option 'nonsense'"):
        spark.sql(f"CREATE TABLE {name} USING azqueue OPTIONS {options}")


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("overwrite", r"a queue cannot be overwritten: write with mode\('append'\)"),
        # These two are Spark's own words; "Overwrite" is what it thinks of every Python source.
        ("error", '"ErrorIfExists" mode. Please use either the "Append"'),
        ("ignore", '"Ignore" mode. Please use either the "Append"'),
    ],
)
def test_a_write_appends_or_is_refused(
    spark: SparkSession, fake: FakeQueueService, queue: str, mode: str, says: str
) -> None:
    fake.create_queue(queue)
    write = spark.range(1).selectExpr("'a' AS body").write.format("azqueue").mode(mode)
    with pytest.raises(AnalysisException, match=says):
        write.option("secret.connectionString", fake.connection_string).option(
            "queue", queue
        ).save()
    assert fake.requests["put"] == 0


@pytest.mark.parametrize(("given", "seen"), [("1", 1), ("7", 7), ("32", 32), (None, 32)])
def test_a_peek_shows_as_many_as_asked_for_of_each_queue(
    spark: SparkSession, fake: FakeQueueService, queue: str, given: str | None, seen: int
) -> None:
    names = [f"{queue}-{n}" for n in range(2)]
    for each in names:
        fake.create_queue(each)
        fake.put_many(each, [f"m{n}" for n in range(40)])
    read = spark.read.format("azqueue").options(
        **{"secret.connectionString": fake.connection_string, "queue": ",".join(names)}
    )
    if given:
        read = read.option("peekMessages", given)
    rows = read.load().groupBy("queue").count().collect()

    assert {row.queue: row["count"] for row in rows} == dict.fromkeys(names, seen)
    assert fake.visible(names[0]) == 40
