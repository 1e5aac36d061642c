"""What Python runs first in each process of a job: the put of what a task leased can be held.

With HOLD, a folder, a task waits before its put while <folder>/hold-puts exists, and leaves
<folder>/puts-<process id>. When it has ended, it leaves <folder>/ended-<process id>, with what it
raised, if it did.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

if "HOLD" in os.environ:
    from spark_azqueue.source.executors.folder import PlanFolder
    from spark_azqueue.source.executors.objects import SlotSegment
    from spark_azqueue.source.executors.slot import SlotTask
    from spark_azqueue.source.logged.undecodable import LoggedRows

    folder = Path(os.environ["HOLD"])
    put, rows = PlanFolder.put_segment, SlotTask.rows

    def held_put(self: PlanFolder, given: SlotSegment) -> Any:
        """Wait, then put."""
        while given.received and (folder / "hold-puts").exists():
            (folder / f"puts-{os.getpid()}").touch()
            time.sleep(0.02)
        return put(self, given)

    def told_rows(self: SlotTask) -> LoggedRows:
        """Say how it ended."""
        said = ""
        try:
            return rows(self)
        except Exception as error:
            said = str(error)
            raise
        finally:
            (folder / f"ended-{os.getpid()}").write_text(said)

    PlanFolder.put_segment = held_put  # type: ignore[method-assign]
    SlotTask.rows = told_rows  # type: ignore[method-assign]
