"""Other programs that use the queues: senders, and consumers that nothing goes wrong for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spark_azqueue.testing import MessageView, Refusal

from .service import Service


class Held(NamedTuple):
    """A message that another consumer has dequeued."""

    queue: str
    view: MessageView


class Others:
    """What other programs do, and what they did.

    sent: ids of messages, and the texts that they have now. deleted: ids that they deleted, or that
    went with their queue. touched: ids that they dequeued. renames: makes the text that an update
    sets of the one before.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sent: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.touched: set[str] = set()
        self.held: list[Held] = []
        self.updates = 0
        self.updated: Callable[[str, str], object] = lambda message_id, text: None
        self.renames: Callable[[str, int], str] = lambda text, number: f"{text} updated {number}"

    def send(self, queue: str, text: str) -> str:
        """Put a message. Returns its id."""
        sent = self._service.account.queue(queue).put(text, now=self._service.clock.now())
        self.sent[sent.id] = text
        return sent.id

    def dequeue(self, queue: str, count: int = 1, visibility_s: int = 30) -> list[MessageView]:
        """Take messages, if there is such a queue."""
        if queue not in self._service.account.names():
            return []
        now = self._service.clock.now()
        views = self._service.account.queue(queue).dequeue(
            now=now, count=count, visibility=visibility_s
        )
        self.held += [Held(queue, view) for view in views]
        self.touched |= {view.id for view in views}
        return views

    def ends(self, which: int, how: str) -> None:
        """One of those in hand is done: "deletes", "returns", "updates" it, "keeps" it updated, or
        "forgets" it. A receipt that is stale by now is the other program's own affair."""
        if not self.held:
            return
        name, view = self.held.pop(which % len(self.held))
        if how == "forgets" or name not in self._service.account.names():
            return
        queue, now = self._service.account.queue(name), self._service.clock.now()
        try:
            if how == "deletes":
                queue.delete(view.id, view.receipt, now=now)
                self.deleted.add(view.id)
            elif how == "returns":
                queue.update(view.id, view.receipt, now=now, visibility=0)
            else:
                text = self.renames(view.text, self.updates + 1)
                visibility_s = 50 if how == "keeps" else 0
                queue.update(view.id, view.receipt, now=now, visibility=visibility_s, text=text)
                self.updates += 1
                self.sent[view.id] = text
                self.updated(view.id, text)
        except Refusal:
            pass

    def remove(self, queue: str) -> None:
        """A queue goes, with its messages."""
        if queue in self._service.account.names():
            self.deleted |= {view.id for view in self._service.views(queue)}
            self._service.account.delete(queue)

    def go_home(self) -> None:
        """Forget what is in hand."""
        self.held.clear()
