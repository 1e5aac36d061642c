"""What a user gets: wheel and sdist in an empty environment, and Spark finding the format there."""

from __future__ import annotations

import json
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
from release_check import description_of

from spark_azqueue import __version__
from spark_azqueue.testing import FakeQueueService

PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession

kind, queue, folder = sys.argv[1:]
builder = SparkSession.builder
builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
options = {"secret.connectionString": os.environ["TEXT"], "queue": queue}
write = spark.range(5).selectExpr("string(id) AS body").write.format("azqueue")
write.mode("append").options(**options).save()
stream = spark.readStream.format("azqueue").options(**options).load()
query = (
    stream.writeStream.format("json").option("path", folder + "/rows")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
assert query.awaitTermination(180)
bodies = sorted(row.body for row in spark.read.json(folder + "/rows").collect())
import spark_azqueue
print(json.dumps({"session": type(spark).__module__, "bodies": bodies,
    "package": spark_azqueue.__file__}))
spark.stop()
"""


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "PYSPARK"))
    }
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_holds_the_package_alone(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as wheel:
        names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        "spark_azqueue",
        "pyspark_azqueue",
        f"spark_azqueue-{__version__}.dist-info",
    }
    assert "spark_azqueue/py.typed" in names
    assert "spark_azqueue/testing/server.py" in names
    assert description_of(only(dist, "*.whl")).startswith("# spark-azqueue")


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_it_installs_into_an_empty_environment(dist: Path, tmp_path: Path, pattern: str) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check")
    done = run(python, "-m", "pip", "install", *quiet, only(dist, pattern), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

    done = run(python, "-m", "pip", "check", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    doctor = run(python, "-m", "spark_azqueue", folder=tmp_path)
    assert f"ok   spark-azqueue {__version__}" in doctor.stdout
    assert "BAD  Spark: this Python has no pyspark" in doctor.stdout
    assert doctor.returncode == 1


@pytest.fixture
def installed(dist: Path, with_spark: Path, tmp_path: Path) -> Path:
    """A Python with Spark, into which pip has installed the wheel."""
    pip = (with_spark, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    done = run(*pip, "--force-reinstall", "--no-deps", only(dist, "*.whl"), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return with_spark


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_spark_finds_the_format_after_pip_install_alone(
    installed: Path, fake: FakeQueueService, queue: str, tmp_path: Path, kind: str
) -> None:
    fake.create_queue(queue)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    done = run(
        installed,
        program,
        kind,
        queue,
        tmp_path,
        folder=tmp_path,
        TEXT=fake.connection_string,
        PYSPARK_PYTHON=str(installed),
        SPARK_LOCAL_IP="127.0.0.1",
        # Its server then takes a free port in place of 15002, and its client asks for it.
        **({"SPARK_TESTING": "1"} if kind == "connect" else {}),
    )

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert ("connect" in seen["session"]) == (kind == "connect")
    assert seen["bodies"] == ["0", "1", "2", "3", "4"]
    assert ".matrix/wheel" in seen["package"]
    assert fake.count(queue) == 0


NOT_ACTIVATED = """
from pyspark.sql import SparkSession
import spark_azqueue

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    print(spark.read.format("azqueue").load())
except Exception as error:
    print(spark_azqueue.explain(error).error)
"""


def test_an_environment_that_is_not_activated_is_named_before_spark_finds_nothing(
    installed: Path, tmp_path: Path
) -> None:
    """`venv/bin/python job.py`, as an editor or cron starts it: Spark takes another Python."""
    venv.create(tmp_path / "other")
    bare = str(tmp_path / "other" / "bin")
    program = tmp_path / "program.py"
    program.write_text(NOT_ACTIVATED)
    path = f"{bare}:{os.environ['PATH']}"

    done = run(installed, program, folder=tmp_path, PATH=path, SPARK_LOCAL_IP="127.0.0.1")

    assert done.stdout.splitlines() == ["DATA_SOURCE_NOT_FOUND"], done.stderr[-3000:]
    (line,) = [each for each in done.stderr.splitlines() if "the workers' Python" in each]
    assert line.startswith("the workers' Python: python3 (PYSPARK_PYTHON is not set) has no ")
    assert line.endswith(f"export PYSPARK_PYTHON={installed}")
