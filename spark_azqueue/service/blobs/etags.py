"""Current etag of a blob."""

from __future__ import annotations

import re

from spark_azqueue.errors import ServiceError

from .calls import LookAtBlob
from .container import Container

_NEEDS = "the SAS letter 'r' for blobs or the role 'Storage Blob Data Reader'"
_ETAG = re.compile(r"[!-~]{1,200}")


def etag_of(container: Container, path: str) -> str | None:
    """Return the blob's etag without quotation marks; None if the blob does not exist.

    Raises ServiceError.
    """
    try:
        properties = container.do(LookAtBlob(container.ref, path, _NEEDS))
    except ServiceError as error:
        # an answer to a HEAD request may lack the error code
        if error.status == 404 and error.code != "ContainerNotFound":
            return None
        raise
    found = properties.get("etag", "").strip('"')
    if not _ETAG.fullmatch(found):
        raise ServiceError(f"could not look at blob '{path}' in {container.place}: it has no etag")
    return found
