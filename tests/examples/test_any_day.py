"""Messages for any day: many days with kills in simulated time, and the example on Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_azqueue.testing import FakeQueueService


def test_any_day(main: Callable[[str], Path], fake: FakeQueueService) -> None:
    main("any_day")
    sent = sorted(view.text for view in fake.messages("example-reminders"))
    assert sent == ["day 0", "day 1"]


@pytest.mark.parametrize("days", [40, pytest.param(400, marks=pytest.mark.long)])
def test_days_with_kills_send_each_message_once_and_none_early(tmp_path: Path, days: int) -> None:
    script = Path(__file__).with_name("many_days.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(days)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    count = f"{3 * days:,}"
    assert f"{days} days: {count} of {count} messages, 0 twice, 0 early" in done.stdout
