"""The names of exported metrics: one table for Prometheus and OpenTelemetry."""

from __future__ import annotations

from .report import Counters

ACTIVE = "azqueue_query_active"
PROGRESS = "azqueue_last_progress_timestamp_seconds"

GAUGES = {
    "oldest_seconds": "azqueue_oldest_message_age_seconds",
    "expires_seconds": "azqueue_message_expiry_seconds",
    "messages": "azqueue_batch_messages",
    "batch_seconds": "azqueue_batch_duration_seconds",
    "messages_per_second": "azqueue_messages_per_second",
    "held": "azqueue_held_messages",
    "remembered": "azqueue_remembered_messages",
    "visibility_timeout": "azqueue_visibility_timeout_seconds",
    "log_segments": "azqueue_log_segments",
    "log_bytes": "azqueue_log_bytes",
    "log_uncommitted": "azqueue_log_uncommitted_batches",
    "log_known": "azqueue_log_known_messages",
    "log_owed": "azqueue_log_owed_messages",
    "log_put_seconds": "azqueue_log_put_duration_seconds",
    "sink_rows": "azqueue_batch_sink_rows",
}
"""Figures exported as gauges with the label `query`: field -> metric name."""

BY_QUEUE = {
    "backlog": "azqueue_backlog_messages",
    "poison": "azqueue_poison_queue_messages",
}
"""Figures exported as gauges with the labels `query` and `queue`: field -> metric name."""

COUNTERS = {name: f"azqueue_{name}" for name in Counters.meanings()}
"""Counters with the label `query`: field -> metric name, to which the client adds `_total`.

They start from zero in each run of a query.
"""
