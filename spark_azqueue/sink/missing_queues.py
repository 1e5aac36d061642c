"""createQueue=true: creates the queues that rows name and that do not exist."""

from __future__ import annotations

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient

from .requests import EnqueueRow, RowRequest


class MissingQueues:
    """Creates each queue at most once for a task. Thread-safe."""

    def __init__(self, client: QueueClient, *, allowed: bool) -> None:
        self._client = client
        self._allowed = allowed
        self._created: set[QueueRef] = set()

    def create_for(self, request: RowRequest) -> bool:
        """Create the queue of this row, unless that was done. Returns False if it is not allowed.

        Only for a row to enqueue: in a new queue there is no message to update or delete.
        Raises ServiceError.
        """
        if not (self._allowed and isinstance(request, EnqueueRow)):
            return False
        if request.queue not in self._created:  # two threads may both create it: that does no harm
            self._client.create(request.queue)
            self._created.add(request.queue)
        return True
