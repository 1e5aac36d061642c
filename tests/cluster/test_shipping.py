"""docs/permissions.md: what works if the package comes with the job, not by pip everywhere.

`python` on the workers is one that has what the package requires, but not the package.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from programs import Programs
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService

USES = Path(__file__).with_name("uses.py")
SINKS_AND_PEEK = {"sink", "sink_of_a_stream", "peek"}
ALL = SINKS_AND_PEEK | {"source"}


@pytest.mark.parametrize(
    ("on_the_driver", "register", "works"),
    [
        pytest.param(True, False, set(), id="on the driver, a file"),
        pytest.param(True, True, ALL, id="on the driver, a file, registered"),
        pytest.param(False, True, SINKS_AND_PEEK, id="a file, registered"),
    ],
)
def test_what_works_where_the_workers_have_no_package(
    cluster: Cluster,
    programs: Programs,
    installed: Path,
    bare: Path,
    wheel: Path,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    *,
    on_the_driver: bool,
    register: bool,
    works: set[str],
) -> None:
    fake.create_queue(queue)
    fake.put(queue, "one")
    # Spark knows a package by the end of its name: .zip, not .whl.
    package = shutil.copy(wheel, tmp_path / "package.zip")

    python = installed if on_the_driver else bare
    program = programs.start(
        cluster,
        python,
        *(USES, tmp_path, queue),
        conf={"spark.task.maxFailures": "1"},
        TEXT=fake.connection_string,
        PYSPARK_PYTHON="python",
        FILE=str(package),
        REGISTER="yes" if register else "",
    )

    seen = program.result()
    assert {use for use, result in seen.items() if result == "works"} == works, seen
