"""Lets one plan follow another: the first put decides, whoever makes it."""

from __future__ import annotations

from .folder import PlanFolder
from .names import PlanId
from .plan import Plan
from .settled import SeenMessages
from .takeover import PlanRecovery


class Chain:
    """Used by one thread."""

    def __init__(self, folder: PlanFolder, takeover: PlanRecovery) -> None:
        self._folder = folder
        self._takeover = takeover
        self.followed: PlanId | None = None
        """The newest plan behind which this process put another."""

    def put(self, plan: Plan, following: Plan, known: SeenMessages) -> Plan:
        """Let this plan follow that one, unless another does. Returns the one that follows.

        known: what gives no second row in it. Raises LostSegment, LogDamaged, ServiceError.
        """
        if following.has_known:
            self._folder.put_known(following.id, known)
        self.followed = plan.id
        stands = self._folder.put_following(plan.id, following)
        if plan.number < self._folder.floor():  # what had followed it was removed
            self._takeover.tell_removed(plan)
        return stands
