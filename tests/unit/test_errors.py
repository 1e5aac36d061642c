"""What an answer of the service means, and the words an error is told in."""

import os
import pickle
import re
import subprocess
import sys

import pytest

from spark_azqueue import errors
from spark_azqueue.errors import (
    AccessDenied,
    AzQueueError,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
    short_tracebacks,
)
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.answers import classify, service_error


@pytest.mark.parametrize(
    ("status", "code", "by_receipt", "outcome"),
    [
        (200, "", False, Outcome.OK),
        (201, "", False, Outcome.OK),
        (204, "", True, Outcome.OK),
        (404, "MessageNotFound", True, Outcome.GONE),
        (400, "PopReceiptMismatch", True, Outcome.LOST),
        (400, "InvalidPopReceipt", True, Outcome.LOST),
        # The same code without a receipt is about a value of ours: a retry would not help.
        (400, "InvalidQueryParameterValue", False, Outcome.FATAL),
        (400, "OutOfRangeQueryParameterValue", True, Outcome.FATAL),
        (400, "", True, Outcome.FATAL),
        # A queue that is missing says nothing about a message: that one is not gone.
        (404, "QueueNotFound", True, Outcome.FATAL),
        (404, "", True, Outcome.FATAL),
        (None, "", False, Outcome.RETRY),
        (None, "", True, Outcome.RETRY),
        (408, "", False, Outcome.RETRY),
        (429, "", False, Outcome.RETRY),
        (500, "OperationTimedOut", True, Outcome.RETRY),
        (500, "InternalError", False, Outcome.RETRY),
        (502, "", False, Outcome.RETRY),
        (503, "ServerBusy", True, Outcome.RETRY),
        (504, "", False, Outcome.RETRY),
        (301, "", False, Outcome.FATAL),
        (401, "InvalidAuthenticationInfo", True, Outcome.FATAL),
        (403, "AuthenticationFailed", True, Outcome.FATAL),
        (409, "QueueBeingDeleted", False, Outcome.FATAL),
        (413, "RequestBodyTooLarge", False, Outcome.FATAL),
    ],
)
def test_every_answer_has_one_meaning(status, code, by_receipt, outcome):
    assert classify(status, code, by_receipt=by_receipt) is outcome


@pytest.mark.parametrize(
    ("parameter", "by_receipt", "outcome"),
    [
        ("popreceipt", True, Outcome.LOST),
        ("PopReceipt", True, Outcome.LOST),
        ("popreceipt", False, Outcome.FATAL),
        # Of these, a value of ours is wrong: the message is still held.
        ("visibilitytimeout", True, Outcome.FATAL),
        ("messageid", True, Outcome.FATAL),
        ("", True, Outcome.FATAL),
    ],
)
def test_a_receipt_is_dead_only_if_the_answer_blames_it(parameter, by_receipt, outcome):
    code = "InvalidQueryParameterValue"
    found = classify(400, code, by_receipt=by_receipt, parameter=parameter)
    error = service_error("x", status=400, code=code, by_receipt=by_receipt, parameter=parameter)

    assert found is error.outcome is outcome


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_gone_and_lost_say_that_a_receipt_is_dead(outcome):
    assert outcome.refused is (outcome in (Outcome.GONE, Outcome.LOST))


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (404, "QueueNotFound", QueueNotFound, "a query or write with createQueue=true creates it"),
        (409, "QueueBeingDeleted", QueueNotFound, "Wait until the deletion has finished"),
        (409, "QueueDisabled", QueueNotFound, "Wait"),
        (401, "InvalidAuthenticationInfo", AccessDenied, "check the key"),
        (400, "InvalidAuthenticationInfo", AccessDenied, "cannot read the token"),
        (403, "AuthorizationResourceTypeMismatch", AccessDenied, "srt=sco"),
        (403, "AuthorizationServiceMismatch", AccessDenied, "'ss' has q for queues"),
        (403, "AuthorizationProtocolMismatch", AccessDenied, "an address with https"),
        (403, "AuthorizationSourceIPMismatch", AccessDenied, "other addresses (sip)"),
        (403, "KeyBasedAuthenticationNotPermitted", AccessDenied, "use Microsoft Entra"),
        (403, "AuthorizationFailure", AccessDenied, "it needs the SAS letter 'p'"),
        (403, "AccountIsDisabled", AccessDenied, "The account is disabled"),
        (409, "ContainerBeingDeleted", ServiceError, "the container's deletion has finished"),
        (404, "ResourceNotFound", ServiceError, "check 'accountUrl' or 'blobAccountUrl'"),
        (403, "AuthenticationFailed", AccessDenied, "this machine's clock"),
        (403, "AuthorizationFailure", AccessDenied, "firewall"),
        (403, "AuthorizationPermissionMismatch", AccessDenied, "this needs the SAS letter 'p'"),
        (503, "ServerBusy", ServiceUnavailable, "HTTP 503 ServerBusy"),
        (None, "", ServiceUnavailable, "no answer"),
        (400, "MessageTooLarge", ServiceError, "HTTP 400 MessageTooLarge"),
        (404, "MessageNotFound", ServiceError, "HTTP 404 MessageNotFound"),
    ],
)
def test_an_error_is_of_the_kind_that_callers_catch_and_says_what_to_do(status, code, kind, says):
    error = service_error(
        "dequeue from queue 'orders'", status=status, code=code, needs="the SAS letter 'p'"
    )

    assert type(error) is kind
    assert error.sentence.startswith("could not dequeue from queue 'orders': ")
    assert says in str(error)
    assert (error.status, error.code) == (status, code)
    assert error.outcome is classify(status, code)


def test_a_good_credential_without_the_right_is_told_apart_from_a_bad_one():
    right = service_error("put", status=403, code="AuthorizationPermissionMismatch", needs="'a'")
    credential = service_error("put", status=403, code="AuthenticationFailed", needs="'a'")

    assert "The credential is good" in str(right)
    assert "does not accept this credential" in str(credential)
    assert "needs 'a'" not in str(credential)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Signature not valid in the specified time frame: Start [Sun, 01 Nov 2026 00:00:00 GMT]"
            " - Expiry [Mon, 02 Nov 2026 00:00:00 GMT] - Current [Sun, 22 Nov 2026 10:00:00 GMT]",
            "the SAS has ended, or has not begun yet",
        ),
        (
            "Signature did not match. String to sign used was raup\n\n2026-12-01\n/queue/shop/a",
            "the SAS does not fit. It was made for another queue",
        ),
        (
            "The MAC signature found in the HTTP request 'c2lnbmF0dXJl' is not the same as any"
            " computed signature. Server used following string to sign: 'GET'.",
            "the account key is not that of the account",
        ),
        ("Request date header too old: 'Sun, 01 Nov 2026 00:00:00 GMT'", "clock is wrong"),
        ("something new", "check the key, the SAS's expiry and its queue"),
    ],
)
def test_why_a_credential_is_refused_is_told_as_far_as_the_service_tells_it(said, shown):
    error = service_error("put", status=403, code="AuthenticationFailed", denial=said)

    assert re.search(f"does not accept this credential: .*{shown}", str(error))
    assert said not in str(error)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Signature not valid in the specified time frame: …", "this machine's clock is wrong"),
        ("Signature did not match. String to sign used was …", "the account key is not that"),
    ],
)
def test_a_sas_that_the_connector_made_itself_is_not_blamed_on_the_user(said, shown):
    error = service_error("put", status=403, code="AuthenticationFailed", denial=said, by_key=True)

    assert shown in str(error)
    assert "SAS" not in str(error)


def test_an_error_carries_what_the_answer_said_about_time():
    error = service_error("put", status=503, code="ServerBusy", retry_after=7.0, date="today")

    assert (error.retry_after, error.date) == (7.0, "today")


def test_a_detail_is_shown_in_brackets():
    assert str(service_error("put", status=None, detail="timed out")).endswith(
        "no answer (timed out)"
    )


@pytest.mark.parametrize(
    ("status", "code", "denial", "condition"),
    [
        (404, "QueueNotFound", "", Condition.QUEUE_NOT_FOUND),
        (409, "QueueDisabled", "", Condition.QUEUE_BEING_DELETED),
        (400, "InvalidAuthenticationInfo", "", Condition.UNREADABLE_TOKEN),
        (403, "AuthorizationPermissionMismatch", "", Condition.PERMISSION_MISSING),
        (403, "AuthorizationServiceMismatch", "", Condition.SAS_RESTRICTED),
        (403, "AuthorizationFailure", "", Condition.FIREWALL),
        (403, "KeyBasedAuthenticationNotPermitted", "", Condition.KEYS_NOT_PERMITTED),
        (403, "AccountIsDisabled", "", Condition.ACCOUNT_DISABLED),
        (403, "AuthenticationFailed", "in the specified time frame", Condition.SAS_NOT_VALID_NOW),
        (403, "AuthenticationFailed", "Signature did not match", Condition.SAS_MISMATCH),
        (401, "", "", Condition.ACCESS_DENIED),
        (429, "", "", Condition.SERVICE_BUSY),
        (500, "OperationTimedOut", "", Condition.SERVICE_BUSY),
        (503, "ServerBusy", "", Condition.SERVICE_BUSY),
        (504, "", "", Condition.SERVICE_ERROR),
        (409, "ContainerBeingDeleted", "", Condition.SERVICE_ERROR),
        (None, "", "", Condition.SERVICE_UNAVAILABLE),
    ],
)
def test_a_refusal_has_the_condition_of_its_status_and_code(status, code, denial, condition):
    error = service_error("put", status=status, code=code, denial=denial)

    assert error.condition is condition
    assert str(error) == f"[AZQUEUE_{condition.name}] {error.sentence}"


def test_a_class_has_the_condition_of_its_name_and_a_call_may_name_a_finer_one():
    assert errors.QueueNotFound("x").condition is Condition.QUEUE_NOT_FOUND
    assert str(AzQueueError("x")) == "[AZQUEUE_INTERNAL_ERROR] x"

    finer = QueueNotFound("x", condition=Condition.QUEUE_BEING_DELETED)
    assert str(finer) == "[AZQUEUE_QUEUE_BEING_DELETED] x"
    assert str(pickle.loads(pickle.dumps(finer))) == str(finer)


def test_an_error_that_quotes_another_shows_one_id():
    inner = errors.LostBlob("the blob does not exist")
    outer = errors.UndecodableBody(f"message a cannot be read: {inner}")

    assert str(outer) == (
        "[AZQUEUE_UNDECODABLE_BODY] message a cannot be read: the blob does not exist"
    )


PUBLIC = [value for value in vars(errors).values() if isinstance(value, type)]


@pytest.mark.parametrize(
    "kind", [k for k in PUBLIC if issubclass(k, Exception) and k.__module__ == errors.__name__]
)
def test_every_error_is_an_azqueue_error_and_is_drawn_in_the_tree(kind):
    assert issubclass(kind, AzQueueError)
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    "kind",
    [errors.InvalidOption, errors.InvalidSchema, errors.InvalidRow, errors.UndecodableBody],
)
def test_bad_input_is_a_value_error_too(kind):
    assert issubclass(kind, ValueError)


def test_our_errors_leave_a_door_without_the_frames_below():
    @short_tracebacks
    def door():
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise AzQueueError("in words") from inner

    with pytest.raises(AzQueueError, match="in words") as caught:
        door()

    names = [entry.name for entry in caught.traceback]
    assert "door" not in names
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_the_same_for_a_generator():
    @short_tracebacks
    def door():
        yield "a row"
        raise AzQueueError("in words")

    rows = door()
    assert next(rows) == "a row"
    with pytest.raises(AzQueueError, match="in words") as caught:
        next(rows)

    assert "door" not in [entry.name for entry in caught.traceback]


def test_foreign_errors_leave_a_door_as_they_are():
    @short_tracebacks
    def door():
        raise KeyError("a bug")

    with pytest.raises(KeyError) as caught:
        door()

    assert "door" in [entry.name for entry in caught.traceback]


def test_the_frames_that_were_taken_off_are_in_the_debug_log(caplog):
    @short_tracebacks
    def door():
        raise AzQueueError("in words")

    with caplog.at_level("DEBUG", logger="spark_azqueue.errors"), pytest.raises(AzQueueError):
        door()

    (record,) = caplog.records
    assert record.exc_info is not None


def test_a_door_gives_back_what_the_method_gives():
    @short_tracebacks
    def door(a, *, b):
        """Said here."""
        return a + b

    assert door(1, b=2) == 3
    assert (door.__name__, door.__doc__) == ("door", "Said here.")


WORKER = """
import os, sys, traceback
from types import SimpleNamespace
from spark_azqueue.errors import AzQueueError, short_tracebacks
sys.modules["__main__"].__spec__ = SimpleNamespace(name=sys.argv[1]) if sys.argv[1] else None

@short_tracebacks
def door():
    raise AzQueueError("in words")

try:
    door()
except AzQueueError:
    print(os.environ.get("SPARK_HIDE_TRACEBACK"))
"""


@pytest.mark.parametrize(
    ("main", "given", "left"),
    [
        ("pyspark.daemon", None, "1"),
        ("pyspark.sql.streaming.python_streaming_source_runner", None, "1"),
        ("pyspark.daemon", "", ""),  # somebody wants to see it
        ("jobs.orders", None, "None"),
        ("", None, "None"),
    ],
)
def test_only_a_worker_of_spark_is_told_to_hide_its_own_frames(main, given, left):
    environment = {k: v for k, v in os.environ.items() if k != "SPARK_HIDE_TRACEBACK"}
    if given is not None:
        environment["SPARK_HIDE_TRACEBACK"] = given
    done = subprocess.run(
        [sys.executable, "-c", WORKER, main],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.rstrip("\n") == left, done.stderr
