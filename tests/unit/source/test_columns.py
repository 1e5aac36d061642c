"""The columns of both sides: what fits, and what is said of the rest."""

import pytest

from spark_azqueue.errors import InvalidSchema
from spark_azqueue.options.choices import Operation
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.sink.columns import SinkColumns, check_supplied
from spark_azqueue.source.columns import CORRUPT, check_requested, source_columns

ALL = source_columns(BodyType.STRING, permissive=False)


@pytest.mark.parametrize("body_type", list(BodyType))
def test_the_body_is_of_the_type_that_was_asked_for(body_type):
    assert dict(source_columns(body_type, permissive=False))["body"] == body_type.value


def test_the_raw_text_has_a_column_of_its_own_where_bad_bodies_become_rows():
    permissive = source_columns(BodyType.STRING, permissive=True)

    assert set(permissive) - set(ALL) == {(CORRUPT, "string")}


@pytest.mark.parametrize(
    "requested",
    [ALL, (("body", "string"),), (("queue", "string"), ("body", "string")), tuple(reversed(ALL))],
)
def test_some_of_the_columns_in_any_order(requested):
    assert check_requested(requested, ALL) == requested


@pytest.mark.parametrize(
    ("requested", "says"),
    [
        ((("bdy", "string"),), "a column 'bdy', which the source does not have; it has message_id"),
        (((CORRUPT, "string"),), "a column '_corrupt_record'"),
        ((("Body", "string"),), "a column 'Body'"),
        (
            (("body", "string"), ("id", "int"), ("items", "array<string>")),
            "add .withColumn('parsed', from_json('body', 'id int, items array<string>'))",
        ),
        ((("body", "binary"),), "bodies are binary with bodyType=binary"),
        ((("dequeue_count", "bigint"),), "'dequeue_count' as bigint; the source gives int"),
        ((), "the schema is empty"),
    ],
)
def test_another_schema_is_refused(requested, says):
    with pytest.raises(InvalidSchema) as caught:
        check_requested(requested, ALL)

    assert says in str(caught.value)


def supplied(*columns, ignore_extra=False, queue="orders", operation=Operation.ENQUEUE, **more):
    return check_supplied(
        columns, ignore_extra=ignore_extra, queue=queue, operation=operation, **more
    )


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ((("body", "string"),), SinkColumns(0, None, None, None)),
        ((("body", "binary"),), SinkColumns(0, None, None, None)),
        (
            (("time_to_live", "bigint"), ("visibility_delay", "int"), ("body", "string")),
            SinkColumns(2, None, 1, 0),
        ),
    ],
)
def test_the_sink_finds_its_columns_in_any_order(columns, found):
    assert supplied(*columns) == found


BY_ROW = (("queue", "string"), ("body", "string"))


def test_rows_may_name_their_queues_with_another_for_those_that_name_none():
    assert supplied(*BY_ROW, queue=None) == SinkColumns(1, 0, None, None)
    assert supplied(*BY_ROW, queue=None, default_queue="others") == SinkColumns(1, 0, None, None)


@pytest.mark.parametrize("ignore_extra", [True, False])
def test_a_column_beside_the_option_is_refused_since_one_of_them_would_win_in_silence(ignore_extra):
    with pytest.raises(InvalidSchema, match="'answers', and the column 'queue' names") as caught:
        supplied(*BY_ROW, queue="answers", ignore_extra=ignore_extra)

    for remedy in ("select('body')", "leave the option out", "set 'defaultQueue'"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.DELETE])
def test_a_row_to_update_or_delete_says_where_its_message_is(operation):
    leased = (("message_id", "string"), ("pop_receipt", "string"), ("queue", "string"))

    assert supplied(*leased, operation=operation).queue == 2


def test_a_default_for_a_column_that_is_missing_is_refused():
    with pytest.raises(InvalidSchema, match="there is no such column: set 'queue' instead"):
        supplied(("body", "string"), queue=None, default_queue="orders")


def test_extra_columns_may_be_left_out():
    columns = (("message_id", "string"), ("body", "string"), ("n", "map<string,int>"))

    assert supplied(*columns, ignore_extra=True) == SinkColumns(1, None, None, None)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ((), "the column 'body' is missing"),
        ((("value", "string"),), "to_json(struct(*)) AS body"),
        ((("Body", "string"),), "the column 'body' is missing"),
        ((("body", "int"),), "takes string or binary: cast(body AS string) AS body"),
        ((("body", "struct<a:int>"),), "takes string or binary: to_json(body) AS body"),
        (
            (("body", "string"), ("message_id", "string")),
            "has no use for the column 'message_id'; with operation=enqueue it takes body, queue,",
        ),
        ((("body", "string"), ("time_to_live", "double")), "'time_to_live' is double"),
        ((("body", "string"), ("queue", "binary")), "'queue' is binary; the sink takes string"),
        ((("body", "string"), ("body", "string")), "'body' occurs twice"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(columns, says):
    with pytest.raises(InvalidSchema) as caught:
        supplied(*columns)

    assert says in str(caught.value)


OF_THE_SOURCE = tuple((name, kind) for name, kind in ALL if name != "_corrupt_record")


@pytest.mark.parametrize("ignore_extra", [True, False])
@pytest.mark.parametrize("queue", ["orders", None])
def test_rows_of_the_source_are_not_sent_back_by_mistake(ignore_extra, queue):
    with pytest.raises(InvalidSchema, match=r"sent back there.*select\('body'\)"):
        supplied(*OF_THE_SOURCE, ignore_extra=ignore_extra, queue=queue)


def test_without_their_queue_they_go_where_the_option_says():
    columns = tuple(each for each in OF_THE_SOURCE if each[0] != "queue")

    assert supplied(*columns, ignore_extra=True).queue is None


def test_they_are_sent_back_on_purpose_without_the_option():
    assert supplied(("queue", "string"), ("body", "string"), queue=None).queue == 0


def test_types_are_checked_even_where_extra_columns_are_left_out():
    with pytest.raises(InvalidSchema, match="'queue' is int"):
        supplied(("body", "string"), ("queue", "int"), ignore_extra=True, queue=None)


def test_a_sink_without_a_queue_needs_the_column():
    with pytest.raises(InvalidSchema, match="no queue to write to"):
        supplied(("body", "string"), queue=None)

    columns = (("body", "string"), ("queue", "string"))
    assert supplied(*columns, queue=None).queue == 1


ID, RECEIPT = ("message_id", "string"), ("pop_receipt", "string")


@pytest.mark.parametrize(
    ("operation", "columns", "found"),
    [
        ("delete", (ID, RECEIPT), SinkColumns(message_id=0, pop_receipt=1)),
        (
            "delete",
            (RECEIPT, ("queue", "string"), ID),
            SinkColumns(message_id=2, pop_receipt=0, queue=1),
        ),
        ("update", (ID, RECEIPT), SinkColumns(message_id=0, pop_receipt=1)),
        (
            "update",
            (ID, RECEIPT, ("body", "binary"), ("visibility_delay", "int")),
            SinkColumns(message_id=0, pop_receipt=1, body=2, visibility_delay=3),
        ),
    ],
)
def test_updates_and_deletes_go_by_id_and_receipt(operation, columns, found):
    columns = supplied(*columns, operation=Operation(operation))

    assert columns == found
    assert columns.places == {place for place in vars(found).values() if place is not None}


@pytest.mark.parametrize(
    ("operation", "columns", "says"),
    [
        ("delete", (RECEIPT,), "'message_id' is missing: take it from the source's rows"),
        ("delete", (ID,), "'pop_receipt' is missing"),
        ("update", (ID, ("body", "string")), "read with deleteOnCommit=false"),
        ("delete", (ID, RECEIPT, ("body", "string")), "has no use for the column 'body'"),
        ("update", (ID, RECEIPT, ("time_to_live", "int")), "no use for the column 'time_to_live'"),
        ("update", (ID, RECEIPT, ("dequeue_count", "int")), "does not know the column 'dequeue"),
        ("delete", (ID, ("pop_receipt", "binary")), "'pop_receipt' is binary; the sink takes str"),
    ],
)
def test_columns_that_do_not_fit_an_operation_are_refused(operation, columns, says):
    with pytest.raises(InvalidSchema) as caught:
        supplied(*columns, operation=Operation(operation))

    assert says in str(caught.value)
