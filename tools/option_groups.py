"""The options by task, for docs/options.md: titles, and the options under each, in their order."""

from __future__ import annotations

from spark_azqueue.options.option import Option
from spark_azqueue.options.parse import OPTIONS

GROUPS = {
    "Which queue": ("queue", "createQueue", "defaultQueue", "queuePriority"),
    "Account and credential": (
        "secret.connectionString",
        "accountUrl",
        "accountAccessKey",
        "sasToken",
        "sasProvider",
        "credential",
        "serviceCredential",
        "credentialProvider",
        "tenantId",
        "clientId",
        "clientSecret",
    ),
    "What a body is": ("messageEncoding", "bodyType", "onUndecodable", "messageFormat"),
    "Bodies over 64 KiB": (
        "largeBody",
        "blobContainer",
        "blobAccountUrl",
        "secret.blobConnectionString",
        "deleteBlob",
    ),
    "Size and pace of batches": (
        "maxMessagesPerTrigger",
        "minMessagesPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "messagesPerPartition",
        "maxPollInterval",
        "dequeueAhead",
        "parallelism",
        "peekMessages",
    ),
    "Leases and deletes": ("visibilityTimeout", "settingsFromQueue", "deleteOnCommit"),
    "Poison messages": (
        *("maxDequeueCount", "maxPoisonMessages"),
        *("poisonQueue", "poisonFormat"),
    ),
    "The same rows after a restart": (
        "writeAheadLog",
        "deleteAfter",
        "writeAheadLogRetention",
        "writeAheadLogStart",
        "failOnDataLoss",
    ),
    "A log as a table": (
        "readLog",
        "startingAt",
        "endingAt",
        "maxBatchesPerTrigger",
    ),
    "Executors that lease": ("leaseOn", "executorSlots"),
    "Transactions": ("transactionLog", "txnAppId", "txnVersion", "isolationLevel"),
    "What the sink does with a row": (
        "operation",
        "visibilityDelay",
        "timeToLive",
        "ignoreExtraColumns",
    ),
    "When the sink cannot write": ("onRowError", "rowErrorQueue", "onStaleReceipt"),
}


def grouped() -> dict[str, list[Option]]:
    """The options of each group. Raises ValueError if one is in none, in two, or does not exist."""
    known = {option.name: option for option in OPTIONS}
    listed = [name for names in GROUPS.values() for name in names]
    wrong = {name for name in listed if listed.count(name) > 1} | (known.keys() ^ set(listed))
    if wrong:
        raise ValueError(f"put each option into one group, once: {', '.join(sorted(wrong))}")
    return {title: [known[name] for name in names] for title, names in GROUPS.items()}
