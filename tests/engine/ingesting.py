"""IngestJobs in a process of their own, for the kills of `killing.py`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from .killing import KilledQuery, QueriesJob

BAD_EVERY = 10


class IngestQuery(KilledQuery):
    """One job of `ingest_job.py`. Every tenth message is broken."""

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def send(self, count: int) -> None:
        numbers = range(len(self.sent), len(self.sent) + count)
        bodies = [
            f"broken {number}" if number % BAD_EVERY == 5 else json.dumps({"order_id": number})
            for number in numbers
        ]
        self.sent += bodies
        self.fake.put_many(self.queue, bodies)

    def check(self) -> tuple[int, int]:
        """Each message has its row, once. Returns how many fit, and how many do not."""
        rows = json.loads((self.folder / "rows.json").read_text())
        found = Counter(
            json.dumps({"order_id": order_id}) if error is None else body
            for _, _, order_id, error, body in rows
        )
        assert found == Counter(self.sent), self.queue
        good = [row for row in rows if row[3] is None]
        bad = [row for row in rows if row[3] is not None]
        assert all(row[4] is None for row in good)
        assert all(row[3] == "it is neither a pack nor a JSON object" for row in bad)
        assert len({(row[0], row[1]) for row in rows}) == len(rows)
        return len(good), len(bad)


class IngestsJob(QueriesJob):
    """`ingest_job.py`, with some jobs."""

    script = Path(__file__).with_name("ingest_job.py")
    kind = IngestQuery
