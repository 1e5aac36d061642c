"""Which version of each file is there now, by the blob endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from spark_azqueue.service.account import Account
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.etags import etag_of

from .memory import File

_AT_ONCE = 8


def etags(account: Account, files: Iterable[File]) -> dict[tuple[str, str], str]:
    """The etag of each file, by place and path; a file that does not exist is left out.

    account: its `url` is the blob endpoint. Raises ServiceError.
    """
    asked = list(files)
    containers = {
        place: Container(
            account,
            place.partition("/")[2],
            connections=_AT_ONCE,
            if_missing="Correct 'trusted', or create the container",
        )
        for place in {file.place for file in asked}
    }
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda file: etag_of(containers[file.place], file.path), asked)
            pairs = zip(asked, found, strict=True)
            return {(file.place, file.path): etag for file, etag in pairs if etag is not None}
    finally:
        for container in containers.values():
            container.close()
