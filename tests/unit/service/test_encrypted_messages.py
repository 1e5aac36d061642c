"""A message that Azure's SDK encrypted is a text like any other: docs/when-not.md says so."""

from __future__ import annotations

import json

from azure.storage.queue import QueueClient

from spark_azqueue.service.account import API_VERSION
from spark_azqueue.service.encoding import BodyType, Encoding, decode
from spark_azqueue.testing import FakeQueueService


class Key:
    """A key of the sender, as the SDK wants one: it "wraps" by turning bytes over."""

    def wrap_key(self, key: bytes) -> bytes:
        return key[::-1]

    def unwrap_key(self, key: bytes, algorithm: str) -> bytes:
        return key[::-1]

    def get_kid(self) -> str:
        return "a-key"

    def get_key_wrap_algorithm(self) -> str:
        return "turned-over"


def test_its_body_is_the_envelope(fake: FakeQueueService) -> None:
    fake.create_queue("orders")
    with QueueClient.from_connection_string(
        fake.connection_string,
        "orders",
        api_version=API_VERSION,
        require_encryption=True,
        key_encryption_key=Key(),
        encryption_version="2.0",
    ) as sender:
        sender.send_message("a secret order")

    (stored,) = fake.messages("orders")
    body = decode(stored.text, Encoding.NONE, BodyType.STRING)
    assert json.loads(body).keys() == {"EncryptedMessageContents", "EncryptionData"}
    assert "a secret order" not in str(body)
