"""No secret reaches a log at any level, a repr, or an error."""

import logging
import pickle
import re
import socket
import threading
from urllib.parse import parse_qs, quote, unquote

import pytest
from door import Door
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.errors import AzQueueError, ServiceUnavailable
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import sink_config, source_config
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.management import create_queue, read_metadata
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.testing import Fault

SIGNATURE = "aBcD1234%2Bx%2Fy%3D"
SAS = f"sv=2021-12-02&se=2030-01-01T00%3A00%3A00Z&sp=raup&sig={SIGNATURE}"
UNHIDDEN = re.compile(r"sig=(?!…|REDACTED)[^\s&]", re.IGNORECASE)


@pytest.fixture
def log(caplog):
    """Everything that anybody logs, at the most talkative level."""
    caplog.set_level(logging.DEBUG)
    for name in ("urllib3", "urllib3.connectionpool", "azure"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def everything(log):
    formatter = logging.Formatter()  # with the tracebacks
    return "\n".join(formatter.format(record) for record in log.records)


def assert_clean(text, *secrets):
    for secret in (SIGNATURE, *secrets):
        for form in (secret, quote(secret, ""), unquote(secret)):
            assert form not in text
    assert UNHIDDEN.search(text) is None


def options_of(fake, kind):
    """Options that hold a secret, and the secrets."""
    if kind == "key":
        return {"secret.connectionString": fake.connection_string}, [fake.key]
    sas = fake.sas()
    secrets = [fake.key, parse_qs(sas)["sig"][0]]
    if kind == "connection string with a SAS":
        text = f"QueueEndpoint={fake.url};SharedAccessSignature={sas}"
        return {"secret.connectionString": text}, secrets
    return {"accountUrl": fake.url, "sasToken": sas}, secrets


KINDS = ["key", "SAS", "connection string with a SAS"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_course_of_things_logs_no_secret(fake, log, kind):
    options, secrets = options_of(fake, kind)
    options |= {"queue": "orders", "createQueue": "true"}
    config = source_config(options, {})

    sink = sink_config(options, {})
    rows = [(str(n),) for n in range(5)]
    Sender(sink).send(requests(rows, SinkColumns(0, None, None, None), sink))
    consumer = Door(LeasedConsumer(config, source_columns(config.body_type, permissive=False)))
    fake.faults.add(
        Fault("dequeue", "busy_503", times=1, seconds=0),
        Fault("delete", "reset", times=1),
        Fault("delete", "not_found", times=1),
    )
    end = consumer.latest(consumer.initial, None)
    consumer.plan(consumer.initial, end)
    consumer.latest(end, None)
    consumer.close()

    assert_clean(everything(log), *secrets)


@pytest.mark.parametrize("kind", KINDS)
def test_creating_a_queue_logs_no_secret(fake, log, kind):
    options, secrets = options_of(fake, kind)
    account = read_account(options, {})

    assert create_queue(account, "orders") is True
    assert create_queue(account, "orders") is False
    assert read_metadata(account, "orders") == {}

    assert fake.requests["create"] == 2
    assert_clean(everything(log), *secrets)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "trouble", ["missing", "revoked", "no right", "busy", "reset", "away", "unauthorized"]
)
def test_no_error_holds_a_secret(fake, log, kind, trouble):
    options, secrets = options_of(fake, kind)
    account = read_account(options, {})
    queue = OneQueue(account, ORDERS)
    if trouble != "missing":
        fake.create_queue("orders")
    fake.revoked = trouble == "revoked"
    if trouble == "no right":
        fake.permissions = ""
    if trouble in ("busy", "reset", "unauthorized"):
        fake.faults.add(Fault("*", {"busy": "busy_503"}.get(trouble, trouble)))
    if trouble == "away":
        fake.stop()
    lease = Lease(ORDERS, "id", "AAAA")

    for call in (
        lambda: queue.dequeue(1, 60),
        lambda: queue.put("hello"),
        lambda: queue.delete(lease),
        queue.check,
    ):
        with pytest.raises(AzQueueError) as caught:
            call()
        assert_clean(str(caught.value) + repr(caught.value), *secrets)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None

    assert_clean(everything(log), *secrets)


def test_an_answer_with_a_broken_header_tells_no_secret(log):
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(
                b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nno header at all\r\n\r\n"
            )

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/acc"
    account = read_account({"accountUrl": url, "sasToken": SAS}, {})

    with pytest.raises(ServiceUnavailable, match="Header without colon") as caught:
        OneQueue(account, ORDERS).delete(Lease(ORDERS, "id", "AAAA"))

    thread.join(10)
    listener.close()
    assert_clean(str(caught.value))
    assert_clean(everything(log))


@pytest.mark.parametrize("make", [source_config, sink_config])
@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ({"accountUrl": "https://acc.queue.core.windows.net", "sasToken": SAS}, SIGNATURE),
        (
            {
                "accountUrl": "https://acc.queue.core.windows.net",
                "accountAccessKey": "c2VjcmV0LWtleQ==",
            },
            "c2VjcmV0",
        ),
        (
            {"secret.connectionString": "AccountName=acc;AccountKey=c2VjcmV0LWtleQ=="},
            "c2VjcmV0",
        ),
        (
            {
                "accountUrl": "https://acc.queue.core.windows.net",
                "credential": "servicePrincipal",
                "tenantId": "t",
                "clientId": "c",
                "clientSecret": "hush-hush",
            },
            "hush-hush",
        ),
    ],
)
def test_a_repr_shows_what_is_open_and_hides_what_is_secret(make, options, secret):
    config = make({**options, "queue": "orders"}, {})

    shown = f"{config!r} {config} {config.account!r} {config.account.identity!r}"

    assert "acc" in shown
    assert secret not in shown
    assert secret.encode() in pickle.dumps(config)  # it does travel
