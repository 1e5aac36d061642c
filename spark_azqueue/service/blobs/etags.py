"""The etag that a blob has now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_azqueue.errors import ServiceError

from .container import Container

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_NEEDS = "the SAS letter 'r' for blobs or the role 'Storage Blob Data Reader'"
_ETAG = re.compile(r"[!-~]{1,200}")


def etag_of(container: Container, path: str) -> str | None:
    """The etag, without quotation marks; None if there is no such blob. Raises ServiceError."""

    def ask(client: ContainerClient) -> str:
        return str(client.get_blob_client(path).get_blob_properties().etag).strip('"')

    patience = container.attempt_seconds(0)
    try:
        found = container.retried(f"look at blob '{path}'", _NEEDS, ask, attempt_s=patience)
    except ServiceError as error:
        if error.status == 404 and error.code != "ContainerNotFound":  # a HEAD may have no code
            return None
        raise
    if not _ETAG.fullmatch(found):
        raise ServiceError(f"could not look at blob '{path}' in {container.place}: it has no etag")
    return found
