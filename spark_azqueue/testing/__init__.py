"""A strict fake of Azure Queue Storage, for tests of code that reads or fills queues.

    with FakeQueueService() as service:
        service.create_queue("orders")
        service.put("orders", "hello")
        ...  # run the code under test against service.connection_string, or service.sas("orders")
        service.clock.advance(30)  # leases expire
        service.faults.add(Fault("delete", "busy_503", every=10))

This package needs only the standard library.
From a shell: `python -m spark_azqueue.testing --queue orders`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answering import LogEntry
from .errors import Refusal
from .faults import Fault, FaultScript
from .model import MessageView
from .server import FakeClock, FakeQueueService

if TYPE_CHECKING:
    from .azurite import Azurite, AzuriteUnavailable

__all__ = [
    "Azurite",
    "AzuriteUnavailable",
    "FakeClock",
    "FakeQueueService",
    "Fault",
    "FaultScript",
    "LogEntry",
    "MessageView",
    "Refusal",
]


def __getattr__(name: str) -> Any:
    if name in ("Azurite", "AzuriteUnavailable"):
        from . import azurite

        return getattr(azurite, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
