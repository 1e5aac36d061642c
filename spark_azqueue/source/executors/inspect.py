"""Contents of the folder of leaseOn=executors, for the doctor. Changes nothing."""

from __future__ import annotations

from spark_azqueue.journal.store import LogStore

from .folder import PlanFolder
from .names import START
from .plan import Plan as Plan


class FolderContents:
    """Contents of a folder at one moment.

    Raises AzQueueError if the folder cannot be read or is damaged.
    """

    def __init__(self, store: LogStore, account: str) -> None:
        self._folder = PlanFolder(store, account)
        self.is_new = not self._folder.identify()
        self._objects = {} if self.is_new else self._folder.objects()

    def newest(self) -> Plan | None:
        """Return the newest plan, or None if the folder has no plan."""
        found = None
        for before in [START, *self._objects][-3:]:
            found = self._folder.following(before) or found
        return found

    def kept(self) -> tuple[int, int]:
        """Return the number up to which plans were removed, and the size of the remaining plans in
        bytes.
        """
        floor = self._folder.floor()
        plans = [plan for plan in self._objects if plan != START and plan.number > floor]
        return floor, sum(sum(self._objects[plan].values()) for plan in plans)

    def slots(self, plan: Plan) -> tuple[int, int, int]:
        """Return three counts of a plan.

        These are the number of slots with a segment, the number of slots with a report, and the
        number of messages in slots that have a segment but no report.
        """
        listed = self._folder.listed(plan.id)
        found = [self._folder.segment(plan, each) for each in listed.segments - listed.settled]
        messages = sum(each[0].header.messages for each in found if each)
        return len(listed.segments), len(listed.settled), messages
