"""The conditions of this package's errors. Each condition has a stable id and a remedy.

Each error shows the id of its condition, as in `[AZQUEUE_QUEUE_NOT_FOUND] could not …`. When Spark
wraps the error, the text still contains the id. `explain`, the doctor and docs/troubleshooting.md
use the id to find the remedy.
"""

from __future__ import annotations

import enum

_OPTIONS = "Options"
_CREDENTIALS = "Credentials"
_COLUMNS = "Columns"
_SERVICE = "The service"
_BODIES = "Bodies"
_CHECKPOINTS = "Checkpoints"
_WRITING = "Writing"
_BLOBS = "Bodies over 64 KiB"
_LOG = "Write-ahead log"
_TRANSACTIONS = "Transactions"
_EXECUTORS = "Leases on executors"


class Condition(enum.Enum):
    """A kind of problem. The details are in the text of the error.

    area: heading in docs/troubleshooting.md. means: meaning of the condition. remedy: advice for
    the user.
    """

    INVALID_OPTION = (
        _OPTIONS,
        "An option is unknown, has a value that is not allowed, or does not fit the others.",
        "correct the option that the error names; docs/options.md lists the allowed values",
    )
    INVALID_ACCOUNT = (
        _CREDENTIALS,
        "The options name no account or credential, or more than one.",
        "give one account with one credential: 'secret.connectionString', or 'accountUrl' with a"
        " key, a SAS or 'credential'",
    )
    NOT_ALLOWED = (
        _CREDENTIALS,
        "A policy, or the rules without one, refuses this provider, host or folder.",
        "name a provider, host or folder that is allowed, or ask an administrator to allow it;"
        " docs/permissions.md says what is allowed without a policy",
    )
    INVALID_LOG_OPTION = (
        _LOG,
        "The options of the write-ahead log do not fit together.",
        "correct the options of the write-ahead log; docs/exactly-once.md says what goes with it",
    )
    INVALID_EXECUTORS_OPTION = (
        _EXECUTORS,
        "The options of `leaseOn=executors` do not fit together.",
        "correct the options of leaseOn=executors; docs/scaling.md says what goes with it",
    )
    INVALID_BLOB_OPTION = (
        _BLOBS,
        "The options of `largeBody` do not fit together.",
        "set largeBody=blob with 'blobContainer', or remove the options that need it",
    )
    INVALID_BLOB_ACCOUNT = (
        _BLOBS,
        "The options do not say which account has the blobs.",
        "name the blob account once: 'blobAccountUrl=https://<account>.blob.core.windows.net',"
        " BlobEndpoint in the connection string, or 'secret.blobConnectionString' for a"
        " separate account. A log in file:/… needs none",
    )
    INVALID_SCHEMA = (
        _COLUMNS,
        "The rows to send lack a column, or have one of another type.",
        "select, rename or cast the columns that the error names",
    )
    INVALID_SOURCE_SCHEMA = (
        _COLUMNS,
        "`.schema(…)` names a column or type that the source does not have.",
        "leave .schema(…) out: it picks among the source's columns, and does not parse the body."
        " docs/bad-rows.md has from_json",
    )
    INVALID_ROW = (
        _WRITING,
        "A row cannot be sent: its body, delay, time to live or queue is not valid.",
        "correct or filter such rows before the write; largeBody=blob sends bodies that are too"
        " large",
    )
    DELETED_ON_COMMIT = (
        _WRITING,
        "The sink was to update or delete messages that the source deletes itself.",
        "read the messages with deleteOnCommit=false (at readStream, without a write-ahead log), or"
        " leave them to the source: docs/writing.md",
    )
    STALE_RECEIPT = (
        _WRITING,
        "An update or delete was refused: the message was leased again.",
        "set a longer 'visibilityTimeout' at the source, or onStaleReceipt=ignore at the sink",
    )
    UNDECODABLE_BODY = (
        _BODIES,
        "A body is not in the encoding that the options name.",
        "set 'messageEncoding' and 'bodyType' as the sender writes, or keep such messages from"
        " stopping the query with onUndecodable=permissive or poison",
    )
    UNDECODABLE_BODY_IN_LOG = (
        _LOG,
        "A body of a logged batch does not decode with the current options.",
        "set 'bodyType', 'largeBody' and 'blobContainer' as they were, until the batch is"
        " committed; with readLog also onUndecodable=permissive helps",
    )
    CORRUPT_PACK = (
        _BODIES,
        "`unpack` cannot open a body: it is not a pack, is damaged, or does not fit the schema.",
        "set corrupt='column' in unpack, or restart until 'maxDequeueCount' dead-letters such"
        " messages; a schema that senders do not write makes all of them corrupt",
    )
    INVALID_BLOB_REFERENCE = (
        _BLOBS,
        "A message refers to a blob in a form or place that the reader does not accept.",
        "make the options of sender and reader match: docs/writing.md",
    )
    TOO_MANY_POISON = (
        _BODIES,
        "More messages fail their batch than `maxPoisonMessages` allows.",
        "correct the code, the data, 'messageEncoding' or the target, and start once with"
        " maxDequeueCount=none. If the messages are at fault, raise 'maxPoisonMessages'",
    )
    LOST_BLOB = (
        _BLOBS,
        "The blob of a message is missing or was changed.",
        "restore the blob (soft delete), restart until it is dead-lettered, or set"
        " onUndecodable=permissive;"
        " docs/writing.md",
    )
    FUNCTION_FAILED = (
        _BODIES,
        "The function of `try_apply` fails on many consecutive rows.",
        "fix the function or what it calls. If this many rows may be bad, raise limit in try_apply",
    )
    ROWS_LOST = (
        _BODIES,
        "`split_apply` stored other rows than the batch has.",
        "start the query again: Spark repeats the batch",
    )
    CHECKPOINT_MISMATCH = (
        _CHECKPOINTS,
        "The checkpoint belongs to other options, another account or a newer release.",
        "restore the options that wrote the checkpoint, or use a new checkpoint and a new output",
    )
    BATCH_SKIPPED = (
        _CHECKPOINTS,
        "A batch was committed, and its rows were not read: the sink skipped it.",
        "start with a new checkpoint and a new output together",
    )
    INGEST_MISMATCH = (
        _CHECKPOINTS,
        "Folder and table of an IngestJob do not fit: one is older, missing or another job's.",
        "follow one of the remedies that the error names; see docs/production.md",
    )
    NOT_OF_THE_SCHEMA = (
        _BODIES,
        "Many consecutive messages are bad, so an IngestJob stopped.",
        "correct its schema or 'messageEncoding'; if this many may be bad, raise its limit",
    )
    LOG_CHECKPOINT_MISMATCH = (
        _LOG,
        "Checkpoint and write-ahead log do not belong together, or one was rolled back.",
        "do what the error says. If the folder cannot be restored, use a new folder, a new"
        " checkpoint and a new output together",
    )
    LOG_CONFLICT = (
        _LOG,
        "Another query or process uses the log's folder.",
        "do what the error says: each load() needs its own folder. If the query was started"
        " twice and one of the two runs, do nothing",
    )
    LATE_SEGMENT = (
        _LOG,
        "The process was paused, and another process recovered its batch.",
        "start the query again, as run_until_done does by itself",
    )
    LOG_DAMAGED = (
        _LOG,
        "An object of the log was changed after it was written.",
        "restore the object from a version or a backup. If that is impossible, replace"
        " everything that the error names, together",
    )
    LOST_SEGMENT = (
        _LOG,
        "A batch, or a part of it, is missing from the log.",
        "restore the batch (soft delete, backup), or set failOnDataLoss=false to continue"
        " without these rows",
    )
    LOG_UNAVAILABLE = (
        _LOG,
        "The log's folder cannot be read or written now.",
        "do what the error says, and check that the driver can read and write the folder",
    )
    INVALID_TRANSACTION_OPTION = (
        _TRANSACTIONS,
        "The options of `transactionLog` do not fit together.",
        "correct the options of the transaction; docs/transactions.md says what goes with it",
    )
    TRANSACTION_CONFLICT = (
        _TRANSACTIONS,
        "Another process writes transactions of this query or `txnAppId`.",
        "find the other process that writes with this checkpoint or txnAppId, and stop one of"
        " the two. If it was an earlier process of this query, start the query again. A copied"
        " checkpoint needs its own 'transactionLog'",
    )
    TRANSACTION_UNKNOWN = (
        _TRANSACTIONS,
        "The log does not know whether the last batch was written.",
        "name the folder that the query used before, or restore it. If 'transactionLog' is new for"
        " this checkpoint, set failOnDataLoss=false for one start",
    )
    TRANSACTION_NOT_WRITTEN = (
        _TRANSACTIONS,
        "A higher `txnVersion` is recorded, and this one may not have been written.",
        "use a number above the newest. If this number was begun before, python -m"
        " spark_azqueue finish shows its hidden messages. To skip it, set failOnDataLoss=false",
    )
    TRANSACTION_OTHER_QUEUE = (
        _TRANSACTIONS,
        "A recorded transaction has messages of a queue that the options do not name.",
        "set 'queue' back for one start if you changed it; otherwise check who else may write"
        " to the log's folder",
    )
    TRANSACTION_EXPIRED = (
        _TRANSACTIONS,
        "Messages of a transaction expired, or would expire, before they are published.",
        "raise 'timeToLive', or write smaller batches. To continue without what has expired, set"
        " failOnDataLoss=false for one start",
    )
    NOT_DRAINED = (
        _SERVICE,
        "An `availableNow` run ended early: leases of other consumers hide messages.",
        "start the query again after the time that the error names",
    )
    LOAD_CONFLICT = (
        _SERVICE,
        "Another reader of the same load() is running: a self-join, or a second start().",
        "call load() again for a second query; to join a stream with itself, write it to a table",
    )
    QUEUE_NOT_FOUND = (
        _SERVICE,
        "The queue does not exist.",
        "correct the name of the queue, or create it (az storage queue create --name <queue>); a"
        " query or write with createQueue=true does that itself",
    )
    QUEUE_BEING_DELETED = (
        _SERVICE,
        "The queue was deleted a moment ago.",
        "wait a minute or so until the queue is gone, then create it and start again",
    )
    CONTAINER_NOT_FOUND = (
        _SERVICE,
        "The container does not exist.",
        "create the container (az storage container create --name <container>), or correct the"
        " option that the error names",
    )
    NO_TOKEN = (
        _CREDENTIALS,
        "Microsoft Entra returned no token.",
        "name the kind of credential that you mean rather than 'default', and try it outside Spark"
        " (az account get-access-token)",
    )
    UNREADABLE_TOKEN = (
        _CREDENTIALS,
        "The service cannot read the token.",
        "try the credential outside Spark (az account get-access-token --resource"
        " https://storage.azure.com); a token of a credentialProvider has to be for Azure Storage",
    )
    ACCESS_DENIED = (
        _SERVICE,
        "The service does not accept the credential.",
        "compare the key or SAS with the portal's (Access keys), the queue that the SAS was made"
        " for, its expiry, the tenant and this machine's clock",
    )
    PERMISSION_MISSING = (
        _SERVICE,
        "The credential is valid, but lacks a permission.",
        "add the permission that the error names; a new role can take minutes to take effect."
        " docs/permissions.md has the list",
    )
    SAS_NOT_VALID_NOW = (
        _SERVICE,
        "The SAS has expired, or is not valid yet.",
        "make a new SAS and set it as 'sasToken', for a long stream rather 'credential'. If the"
        " SAS is still valid, the service's clock has not reached its start ('st' in it)",
    )
    SAS_MISMATCH = (
        _SERVICE,
        "The SAS is for another queue or account, or was copied incompletely.",
        "compare the queue and the account that the SAS was made for with 'queue' and 'accountUrl',"
        " and copy it whole, without further percent-encoding",
    )
    SAS_RESTRICTED = (
        _SERVICE,
        "The SAS is limited to other addresses, protocols or services.",
        "make a new SAS as the error says, and set it as 'sasToken'",
    )
    KEYS_NOT_PERMITTED = (
        _SERVICE,
        "The account does not accept account keys.",
        "use a Microsoft Entra identity: 'accountUrl' with 'credential'; docs/permissions.md has"
        " the roles",
    )
    FIREWALL = (
        _SERVICE,
        "The account's network rules refuse this machine.",
        "check the account's firewall (Networking in the portal). If it allows this machine,"
        " use what the error names",
    )
    ACCOUNT_DISABLED = (
        _SERVICE,
        "The account is disabled.",
        "have the account enabled again, or use another one",
    )
    SERVICE_UNAVAILABLE = (
        _SERVICE,
        "The service could not be reached within two minutes.",
        "test the connection from the driver: curl -I <address of the account>. Check the"
        " account's name, DNS, the account's firewall, its private endpoint and the proxy"
        " (https_proxy)",
    )
    SERVICE_BUSY = (
        _SERVICE,
        "The service throttled every attempt.",
        "the queue or the account is over its target: use more queues and accounts, and leave"
        " parallelism at auto",
    )
    SERVICE_ERROR = (
        _SERVICE,
        "The service refused a request for another reason.",
        "do what the error says; otherwise run the doctor on the driver: python -m"
        " spark_azqueue <queue>",
    )
    INTERNAL_ERROR = (
        _SERVICE,
        "An error of this package.",
        "please report it, with the log of the query or the task",
    )

    def __init__(self, area: str, means: str, remedy: str) -> None:
        self.area, self.means, self.remedy = area, means, remedy

    @property
    def id(self) -> str:
        """The condition's id in texts, such as "AZQUEUE_QUEUE_NOT_FOUND"."""
        return f"AZQUEUE_{self.name}"

    @property
    def anchor(self) -> str:
        """The anchor of the condition in docs/troubleshooting.md."""
        return self.id.lower()
