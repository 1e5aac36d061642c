"""Progress of a query, as Spark writes it into its events, and the events."""

from __future__ import annotations

import json
from types import SimpleNamespace as Event

ID = "aaaaaaaa-0000-0000-0000-000000000001"
RUN = "bbbbbbbb-0000-0000-0000-000000000002"

REPORT = {
    "version": 1,
    "backlog": {"orders": 120, "refunds": 3},
    "held": 32,
    "unconfirmedDeletes": 1,
    "visibilityTimeout": 300,
    "counters": {"dequeued": 64, "delivered": 64, "deleted": 32, "renewals": 5},
}
LOG = {
    "segments": 9,
    "bytes": 900,
    "uncommitted": 1,
    "seen": 2,
    "pending_deletes": 2,
    "put_seconds": 0.1,
}
"""What the report of a query with a write-ahead log has of it."""


def offset(batch, oldest="2026-11-21T10:00:00Z", **queues):
    packed = {name: {"messages": n, "leases": "eJwz"} for name, n in queues.items()}
    head = {"version": 1, "batch": batch, "account": "fakeaccount"}
    return head | ({"oldest": oldest} if oldest else {}) | {"queues": packed}


def source(**changes):
    return {
        "description": "org.apache.spark…PythonMicroBatchStream@1",
        "startOffset": offset(1, orders=32),
        "endOffset": offset(2, orders=30, refunds=2),
        "latestOffset": REPORT,
        "numInputRows": 32,
        "inputRowsPerSecond": 64.0,
        "processedRowsPerSecond": 64.0,
    } | changes


def progress(*sources, **changes):
    return {
        "id": ID,
        "runId": RUN,
        "name": "orders",
        "timestamp": "2026-11-21T10:00:07.250Z",
        "batchId": 1,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "sources": list(sources or [source()]),
    } | changes


def started(listener, name="orders", run=RUN, query_id=ID):
    listener.onQueryStarted(Event(id=query_id, runId=run, name=name))


def went_on(listener, batch=1, **changes):
    text = json.dumps(progress(batchId=batch, **changes))
    listener.onQueryProgress(Event(progress=Event(json=text)))


def ended(listener, run=RUN, query_id=ID, exception=None):
    """exception: the error that ended the run, as text; None if it was stopped or was done."""
    listener.onQueryTerminated(Event(id=query_id, runId=run, exception=exception))
