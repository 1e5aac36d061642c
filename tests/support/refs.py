"""Queues of the account that the fake service has."""

from spark_azqueue.service.messages import QueueRef

ACCOUNT = "fakeaccount"


def ref(name: str, account: str = ACCOUNT) -> QueueRef:
    """The queue of this name."""
    return QueueRef(account, name)


ORDERS = ref("orders")
