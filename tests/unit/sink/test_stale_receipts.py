"""A stale receipt is told as one, by the whole way from a row to the service."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome, StaleReceipt
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.blobs.references import Large, Reference
from spark_azqueue.service.queues.calls import Dequeue, Update
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink import large_bodies as performing
from spark_azqueue.sink.large_bodies import LargeBodies, MissingQueues
from spark_azqueue.sink.requests import DeleteRow, UpdateRow
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent
from spark_azqueue.testing import Fault

QUEUE = "orders"


@pytest.fixture
def stale(fake):
    """A message whose lease was lost to somebody else: the lease that is stale."""
    fake.create_queue(QUEUE)
    fake.put(QUEUE, "text")
    account = read_account({"secret.connectionString": fake.connection_string}, {})
    client = QueueClient(account)
    ((_, lease),) = client.now(Dequeue(ORDERS, 1, 60)).received
    assert client.now(Update(lease, 600))[0] is Outcome.OK
    client.close()
    return lease


def send(fake, request, **options):
    given = {"secret.connectionString": fake.connection_string, "queue": QUEUE}
    operation = "delete" if isinstance(request, DeleteRow) else "update"
    config = sink_config({**given, "operation": operation, **options}, {})
    return Sender(config).send([request])


@pytest.mark.parametrize("operation", ["delete", "update"])
def test_a_stale_receipt_is_told_though_the_service_was_busy_before(fake, stale, operation):
    request = (
        DeleteRow(stale, row=0) if operation == "delete" else UpdateRow(stale, 0, "new", row=0)
    )
    for first_try in (1, 3):
        fake.faults.add(Fault(operation, "busy_503", nth=first_try, seconds=0))

    with pytest.raises(StaleReceipt, match="acknowledged: 0"):
        send(fake, request, onStaleReceipt="fail")
    assert send(fake, request) == Sent(stale=1)

    assert [message.text for message in fake.messages(QUEUE)] == ["text"]


class NoBlobs:
    """Blobs that are stored nowhere."""

    def __init__(self, *place, **options):
        pass

    def put(self, body):
        return Reference("bodies", "0" * 32, len(body.data))

    def close(self):
        pass


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        (["busy_503"], Outcome.GONE),
        (["error_500"], Outcome.OK),
        (["reset"], Outcome.OK),
        (["error_500", "busy_503"], Outcome.OK),
        (["busy_503", "reset"], Outcome.OK),
    ],
)
def test_the_same_for_a_body_in_a_blob(fake, stale, monkeypatch, faults, outcome):
    monkeypatch.setattr(performing, "BlobStore", NoBlobs)
    for number, kind in enumerate(faults, 1):
        fake.faults.add(Fault("update", kind, nth=number, seconds=0))
    config = sink_config(
        {
            "secret.connectionString": fake.connection_string,
            "queue": QUEUE,
            "operation": "update",
            "largeBody": "blob",
            "blobContainer": "bodies",
            "blobAccountUrl": "http://127.0.0.1:9/blobs",
        },
        {},
    )
    client = QueueClient(config.account)
    missing = MissingQueues(client, allowed=config.create_queue)

    found = LargeBodies(config, client, missing).perform(
        UpdateRow(stale, 0, row=0, large=Large(b"x", True))
    )

    client.close()
    assert found is outcome
