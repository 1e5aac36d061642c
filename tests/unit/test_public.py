"""What users import."""

import subprocess
import sys

import pytest

import spark_azqueue


def test_everything_public_is_there():
    for name in spark_azqueue.__all__:
        assert getattr(spark_azqueue, name) is not None


def test_a_star_import_brings_just_that():
    names = {}
    exec("from spark_azqueue import *", names)

    assert names.keys() - {"__builtins__"} == set(spark_azqueue.__all__)


def test_the_source_is_loaded_when_it_is_used_first():
    code = (
        "import sys, spark_azqueue\n"
        "print('spark_azqueue.datasource' in sys.modules, 'pyspark' in sys.modules)\n"
        "spark_azqueue.AzQueueDataSource\n"
        "print('spark_azqueue.datasource' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == ["False", "False", "True"], done.stderr


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'spark_azqueue' has no attribute 'nonsense'"):
        spark_azqueue.nonsense  # noqa: B018


def test_spark_finds_the_source_under_its_name():
    import pyspark_azqueue

    assert pyspark_azqueue.DefaultSource is spark_azqueue.AzQueueDataSource
    assert pyspark_azqueue.DefaultSource.name() == "azqueue"


def test_the_version_is_a_release_number():
    parts = spark_azqueue.__version__.split(".")

    assert len(parts) == 3
    assert all(part.isdigit() for part in parts[:2])
