"""How each assumption about blobs is tried, in a container of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.blobs.folder import BlobFolder

from .bench import Bench, Differs, NotTried, expect, status_and_code

_NAME = "seg/000000000001"
_DATA = bytes(range(256)) * 16


def blob_exists(bench: Bench) -> None:
    with _folder(bench) as folder:
        _put(folder, _DATA)
        try:
            made = folder.put_new(_NAME, b"another")
        except ServiceError as error:
            raise Differs(f"{status_and_code(error)}, not 409 BlobAlreadyExists") from None
        if made:
            raise Differs("the second put is taken as well")
        if folder.get(_NAME, len(_DATA)) == b"another":
            raise Differs("the second put has replaced the first")


def blob_is_whole(bench: Bench) -> None:
    with _folder(bench) as folder:
        _put(folder, _DATA)
        listed = [(each.name, each.size) for each in folder.entries("seg")]
        expect(f"listed: {len(listed)}", "listed: 1")
        expect(f"{listed[0][1]} bytes in the list", f"{len(_DATA)} bytes in the list")


def blob_range(bench: Bench) -> None:
    with _folder(bench) as folder:
        _put(folder, _DATA)
        for most in (100, len(_DATA), len(_DATA) + 1):
            try:
                found = folder.get(_NAME, most)
            except ServiceError as error:
                raise Differs(status_and_code(error)) from None
            if found != _DATA[:most]:
                raise Differs(f"other bytes than the first {most}")


def missing_blob(bench: Bench) -> None:
    with _folder(bench) as folder:
        try:
            if folder.get(_NAME, 1) is not None:
                raise Differs("a read gives something")
            folder.delete(_NAME)
        except ServiceError as error:
            raise Differs(f"{status_and_code(error)}, not 404 BlobNotFound") from None


def missing_container(bench: Bench) -> None:
    if bench.blobs is None:
        raise NotTried("the options name no blob endpoint, or azure-storage-blob is missing")
    folder = BlobFolder(bench.blobs, f"{bench.prefix}-none", "x")
    with contextlib.closing(folder):
        bench.count()
        try:
            folder.open()
        except ServiceError as error:
            expect(status_and_code(error), "404 ContainerNotFound")
        else:
            raise Differs("it can be listed")


@contextlib.contextmanager
def _folder(bench: Bench) -> Iterator[BlobFolder]:
    """A folder of its own, for up to five requests."""
    folder = bench.folder()
    with contextlib.closing(folder):
        bench.count(5)
        yield folder


def _put(folder: BlobFolder, data: bytes) -> None:
    if not folder.put_new(_NAME, data):
        raise NotTried("a new blob is said to exist")


CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (blob_exists, blob_is_whole, blob_range, missing_blob, missing_container)
}
"""By the keys of their assumptions."""
