"""Events of Azure Storage as Event Grid sends them: every type, in both schemas.

Types and fields are those of Microsoft's pages "Azure Blob Storage as an Event Grid source" and
"Azure Storage Actions as an Event Grid source"; the values are made up.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

ACCOUNT = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/shop"
    "/providers/Microsoft.Storage/storageAccounts/shopdata"
)
BLOB, DFS = "https://shopdata.blob.core.windows.net", "https://shopdata.dfs.core.windows.net"
ETAG = "0x8DC2E4835CD0ABC"


@dataclass(frozen=True)
class Event:
    """An event, and what `blob_events` makes of it."""

    type: str
    subject: str
    data: dict[str, Any]
    expected: dict[str, Any] = field(default_factory=dict)
    time: str = "2026-11-20T18:41:00.9584103Z"
    id: str = "831e1650-001e-001b-66ab-eeb76e069631"

    def event_grid(self) -> dict[str, Any]:
        return {
            "topic": ACCOUNT,
            "subject": self.subject,
            "eventType": self.type,
            "eventTime": self.time,
            "id": self.id,
            "data": self.data,
            "dataVersion": "",
            "metadataVersion": "1",
        }

    def cloud_event(self) -> dict[str, Any]:
        return {
            "source": ACCOUNT,
            "subject": self.subject,
            "type": self.type,
            "time": self.time,
            "id": self.id,
            "data": self.data,
            "specversion": "1.0",
        }

    def of(self, schema: str) -> dict[str, Any]:
        return self.event_grid() if schema == "EventGridSchema" else self.cloud_event()


SCHEMAS = ("EventGridSchema", "CloudEventSchemaV1_0")


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def subject_of(container: str, path: str) -> str:
    return f"/blobServices/default/containers/{container}/blobs/{path}"


def _of_blob(
    kind: str, change: str, api: str, path: str = "in/orders-1.json", **rest: Any
) -> Event:
    """An event of one blob or directory; `rest` is what its data has beside the usual."""
    rest = {"url": f"{BLOB}/landing/{path}", **rest}
    is_directory = kind.startswith("Directory")
    usual = {
        "api": api,
        "clientRequestId": "6d79dbfb-0e37-4fc4-981f-442c9ca65760",
        "requestId": "831e1650-001e-001b-66ab-eeb76e000000",
        "sequencer": "00000000000004420000000000028963",
        "storageDiagnostics": {"batchId": "b68529f3-68cd-4744-baa4-3c0498ec19f0"},
    }
    if api.startswith("Sftp"):
        del usual["clientRequestId"]
    return Event(
        f"Microsoft.Storage.{kind}",
        subject_of("landing", path),
        {name: value for name, value in {**usual, **rest}.items() if value is not None},
        {
            "change": change,
            "api": api,
            "is_directory": is_directory,
            "account": "shopdata",
            "container": "landing",
            "path": path,
            "size": rest.get("contentLength"),
            "etag": ETAG if "eTag" in rest else None,
            "blob_type": rest.get("blobType"),
            "content_type": rest.get("contentType"),
            "sequencer": usual["sequencer"],
            "abfss": f"abfss://landing@shopdata.dfs.core.windows.net/{path}",
            "wasbs": f"wasbs://landing@shopdata.blob.core.windows.net/{path}",
            "https": f"{BLOB}/landing/{path}",
            "renamed_from": "in/old" if change == "renamed" else None,
        },
    )


_JSON = {"contentType": "application/json", "blobType": "BlockBlob"}
_WRITTEN = {**_JSON, "eTag": f'"{ETAG}"', "contentLength": 524288}
_EMPTY = {**_WRITTEN, "eTag": ETAG, "contentLength": 0, "contentOffset": 0}
_IN_DFS = {"url": f"{DFS}/landing/in/orders-1.json"}
_SFTP = {"identity": "localuser", "contentType": "application/octet-stream"}


def _renamed(root: str, path: str) -> dict[str, Any]:
    return {
        "url": None,
        "destinationUrl": f"{root}/landing/{path}",
        "sourceUrl": f"{root}/landing/in/old",
    }


OF_BLOBS = (
    _of_blob("BlobCreated", "created", "PutBlockList", **_WRITTEN),
    _of_blob("BlobCreated", "created", "PutBlob", **_WRITTEN),
    _of_blob("BlobCreated", "created", "CopyBlob", **_WRITTEN),
    _of_blob("BlobCreated", "created", "CreateFile", **{**_EMPTY, **_IN_DFS}),
    _of_blob("BlobCreated", "created", "FlushWithClose", **{**_EMPTY, **_IN_DFS}),
    _of_blob(
        *("BlobCreated", "created", "FlushWithClose"),
        **{**_EMPTY, "url": None, "blobUrl": f"{BLOB}/landing/in/orders-1.json"},
    ),
    _of_blob("BlobCreated", "created", "SftpCreate", **{**_EMPTY, **_SFTP}),
    _of_blob("BlobCreated", "created", "SftpCommit", **{**_EMPTY, **_SFTP}),
    _of_blob("BlobDeleted", "deleted", "DeleteBlob", **_JSON),
    _of_blob("BlobDeleted", "deleted", "DeleteFile", **{**_JSON, **_IN_DFS}),
    _of_blob("BlobDeleted", "deleted", "SftpRemove", **{**_JSON, **_SFTP}),
    _of_blob("BlobTierChanged", "tier", "SetBlobTier", **{**_JSON, "contentLength": 105891}),
    _of_blob(
        *("AsyncOperationInitiated", "rehydrating", "SetBlobTier"),
        **{**_JSON, "contentLength": 3660},
    ),
    _of_blob("BlobRenamed", "renamed", "RenameFile", **_renamed(DFS, "in/orders-1.json")),
    _of_blob(
        *("BlobRenamed", "renamed", "SftpRename"),
        **{**_renamed(BLOB, "in/orders-1.json"), "identity": "localuser"},
    ),
    _of_blob("DirectoryCreated", "created", "CreateDirectory", "new", url=f"{DFS}/landing/new"),
    _of_blob("DirectoryCreated", "created", "SftpMakeDir", "new", identity="localuser"),
    _of_blob("DirectoryRenamed", "renamed", "RenameDirectory", "new", **_renamed(DFS, "new")),
    _of_blob("DirectoryRenamed", "renamed", "SftpRename", "new", **_renamed(BLOB, "new")),
    _of_blob(
        *("DirectoryDeleted", "deleted", "DeleteDirectory", "new"),
        url=f"{DFS}/landing/new",
        recursive="true",
    ),
    _of_blob("DirectoryDeleted", "deleted", "SftpRemoveDir", "new", recursive="false"),
)

_SUMMARY = {"totalObjectsCount": 16, "successCount": 14, "errorList": ""}
_TASK = "nightly-2026-11-20T16:42:33.8658256Z_2026-11-20T16:42:58.8983000Z"
_REPORT = f"{BLOB}/reports/nightly/SummaryReport.json"
_TASK_DONE = {
    "status": "Succeeded",
    "completedDateTime": "2026-11-20T16:52:58Z",
    "taskName": "nightly",
    "taskExecutionId": _TASK,
    "summaryReportBlobUrl": _REPORT,
}
_TASK_QUEUED = {"queuedDateTime": "2026-11-20T16:43:50Z", "taskExecutionId": _TASK}

OF_NO_BLOB = (
    Event(
        "Microsoft.Storage.BlobInventoryPolicyCompleted",
        "BlobDataManagement/BlobInventory",
        {
            "scheduleDateTime": "2026-11-20T03:50:27Z",
            "accountName": "shopdata",
            "ruleName": "daily",
            "policyRunStatus": "Succeeded",
            "policyRunStatusMessage": "Inventory run succeeded, refer manifest file for details.",
            "policyRunId": "83e7c94c-6973-4fbc-acdc-88277e448bf5",
            "manifestBlobUrl": f"{BLOB}/inventory/2026/11/20/03-50-27/daily/daily-manifest.json",
        },
        time="2026-11-20T18:41:00Z",
    ),
    Event(
        "Microsoft.Storage.LifecyclePolicyCompleted",
        "BlobDataManagement/LifeCycleManagement/SummaryReport",
        {
            "scheduleTime": "2026/11/19 22:57:29.3260160",
            "policyRunSummary": {"completionStatus": "CompletedWithError"},
            "deleteSummary": {**_SUMMARY, "errorList": ["a.txt", "b.txt"]},
            **{f"tierTo{tier}Summary": _SUMMARY for tier in ("Cool", "Cold", "Archive")},
        },
        time="2026-11-20T18:41:00.9584103",  # such an event has no zone
    ),
    *(
        Event(f"Microsoft.Storage.{kind}", f"DataManagement/{subject}", data)
        for kind, subject, data in (
            ("StorageTaskQueued", "StorageTasks", _TASK_QUEUED),
            ("StorageTaskCompleted", "StorageTasks", _TASK_DONE),
            (
                "StorageTaskAssignmentQueued",
                "StorageActions/StorageTaskAssignments",
                _TASK_QUEUED,
            ),
            (
                "StorageTaskAssignmentCompleted",
                "StorageActions/StorageTaskAssignments",
                _TASK_DONE,
            ),
        )
    ),
)

EVENTS = OF_BLOBS + OF_NO_BLOB


def bodies(event: Event) -> dict[tuple[str, str, str], str]:
    """The event as a body: by schema, single or batched, plain or base64. A batch repeats it."""
    found = {}
    for schema in SCHEMAS:
        for form, value in (("single", event.of(schema)), ("batched", [event.of(schema)] * 2)):
            text = json.dumps(value)
            found[schema, form, "plain"] = text
            found[schema, form, "base64"] = base64_of(text)
    return found
