"""What a Spark session lacks is said before a Java machine is started."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import sfumato.spark
from sfumato.errors import EngineError


@pytest.fixture
def machine(monkeypatch):
    """A machine on which no session runs and none can be started."""

    def started(builder):
        raise AssertionError("Spark is started")

    def none_runs():
        raise PySparkRuntimeError("no session")

    monkeypatch.setattr(SparkSession, "active", none_runs)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", started)
    for name in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "SPARK_HOME",
                 "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def java(tmp_path):
    """What it does -> the folder of a Java that writes down how it was called."""

    def home(script: str) -> str:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n{script}\n')
        program.chmod(0o755)
        return str(tmp_path)

    return home


def says(version: str) -> str:
    return f"echo 'Picked up JAVA_TOOL_OPTIONS: -Da=1' >&2; echo 'openjdk version \"{version}\"' >&2"


@pytest.mark.parametrize(
    ("script", "by", "told"),
    [
        (None, "JAVA_HOME", "JAVA_HOME is '.*', which has no bin/java. Install"),
        (says("1.8.0_292"), "JAVA_HOME", "Java 17 or newer.*is Java 8. Install"),
        (says("16"), "PATH", "is Java 16. Install"),
        (says("17"), "JAVA_HOME", None),
    ],
)
def test_java_that_is_missing_or_too_old(machine, java, tmp_path, script, by, told):
    home = java(script) if script else str(tmp_path)
    machine.setenv(by, home if by == "JAVA_HOME" or not script else f"{home}/bin")
    with pytest.raises(EngineError if told else AssertionError, match=told or "Spark is started"):
        sfumato.spark.session()
