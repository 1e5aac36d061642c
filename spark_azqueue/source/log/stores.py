"""Makes the store that option `writeAheadLog` names."""

from __future__ import annotations

from spark_azqueue.options.log import LogConfig

from .files import FileStore
from .store import LogStore


def log_store(config: LogConfig) -> LogStore:
    """Return the store. Nothing is opened or sent yet."""
    place = config.place
    if place.container is None or config.account is None:
        return FileStore(place.folder)
    from spark_azqueue.service.blobs.folder import BlobFolder  # needs Azure's SDK

    return BlobFolder(config.account, place.container, place.folder)
