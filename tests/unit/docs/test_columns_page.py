"""The page of columns has the columns and types of source and sink."""

from __future__ import annotations

import re
from itertools import product

import pytest
from site_pages import REPOSITORY

from spark_azqueue.errors import InvalidSchema
from spark_azqueue.options.choices import MessageFormat, Operation
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.sink.columns import SinkColumns, check_supplied
from spark_azqueue.source.columns import source_columns

SOURCE, SINK = (REPOSITORY / "docs" / "columns.md").read_text(encoding="utf-8").split("## The sink")


def table(text: str) -> dict[str, list[str]]:
    """Columns of the tables in a text, and what stands behind each name."""
    rows = re.findall(r"^\| `(\w+)` \|(.+)\|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def test_the_source_has_these_columns_in_this_order() -> None:
    told = [(name, cells[0]) for name, cells in table(SOURCE).items()]
    given = source_columns(BodyType.STRING, permissive=True)

    assert [name for name, _ in told] == [name for name, _ in given]
    for (name, kind), (_, said) in zip(given, told, strict=True):
        assert said.split(";")[0] == kind, name
    assert ("body", "binary") in source_columns(BodyType.BINARY, permissive=False)
    assert "binary" in dict(told)["body"]


def test_the_sink_knows_these_columns_and_no_other() -> None:
    assert table(SINK).keys() == set(SinkColumns.__annotations__)


TYPES = ("string", "binary", "int", "bigint", "smallint", "tinyint", "timestamp", "double")


@pytest.mark.parametrize(("name", "kind"), [*product(table(SINK), TYPES)])
def test_the_sink_takes_the_types_that_the_page_names(name: str, kind: str) -> None:
    told = table(SINK)[name][0].split(", ")

    assert takes(name, kind) == (kind in told)


def takes(name: str, kind: str) -> bool:
    """Whether some write takes a column of this type."""
    for operation, form in product(Operation, MessageFormat):
        columns = {"body": "string"}
        if operation is not Operation.ENQUEUE:
            columns = {"message_id": "string", "pop_receipt": "string"}
        elif form is MessageFormat.CLOUD_EVENTS:
            columns |= {"id": "string", "type": "string", "source": "string"}
        try:
            check_supplied(
                tuple((columns | {name: kind}).items()),
                ignore_extra=False,
                queue=None if name == "queue" else "orders",
                operation=operation,
                message_format=form,
            )
        except InvalidSchema:
            continue
        return True
    return False
