"""What a Spark session lacks is said before a Java machine is started."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
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
    return (
        f"echo 'Picked up JAVA_TOOL_OPTIONS: -Da=1' >&2; echo 'openjdk version \"{version}\" 2020-01-01' >&2"
    )


@pytest.mark.long
@pytest.mark.parametrize("missing", ["pyspark", "pandas"])
def test_the_module_is_there_without_what_it_needs(missing):
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import importlib.util as u; found = u.find_spec\n"
        f"u.find_spec = lambda name, package=None: None if name == {missing!r} else found(name, package)\n"
        "import sfumato.spark\n"
        "sfumato.spark.session()"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1]
    assert last == (
        f"sfumato.errors.EngineError: {missing} is not installed; "
        "install it with: pip install 'sfumato[spark]'"
    )


@pytest.mark.parametrize(
    ("script", "by", "told"),
    [
        (None, "PATH", "Java 17.*none on the path, and JAVA_HOME is not set; install.*apt"),
        (
            None,
            "JAVA_HOME",
            "JAVA_HOME is '.*', which has no bin/java; install",
        ),  # which goes before the path
        (says("1.8.0_292"), "JAVA_HOME", "Java 17 or newer.*is Java 8;"),
        (says("11.0.2"), "PATH", "is Java 11;"),
        (says("16"), "JAVA_HOME", "is Java 16;"),
        (says("17"), "JAVA_HOME", None),
        (says("21-ea"), "PATH", None),
        ("exit 1", "JAVA_HOME", "does not run"),
        ("echo something", "JAVA_HOME", None),  # left to Spark
    ],
)
def test_java_that_is_missing_or_too_old(machine, java, tmp_path, script, by, told):
    home = java(script) if script else str(tmp_path)
    machine.setenv(by, home if by == "JAVA_HOME" or not script else f"{home}/bin")
    with pytest.raises(EngineError if told else AssertionError, match=told or "Spark is started"):
        sfumato.spark.session()


def test_where_else_java_may_come_from(machine, tmp_path):
    """spark-submit has started it already, or a script of the site's says where it is."""
    machine.setenv("PATH", str(tmp_path))
    (tmp_path / "spark-env.sh").touch()
    for name, value in (("PYSPARK_GATEWAY_PORT", "1"), ("SPARK_CONF_DIR", str(tmp_path))):
        with machine.context() as here:
            here.setenv(name, value)
            with pytest.raises(AssertionError, match="Spark is started"):
                sfumato.spark.session()


def test_connect_is_refused(machine):
    for setting in ("spark.remote", "spark.api.mode"):
        with pytest.raises(EngineError, match=f"{setting} asks for Spark Connect"):
            sfumato.spark.session(config={setting: "connect"})
    for name, told in (
        ("SPARK_REMOTE", "SPARK_REMOTE asks for Spark Connect"),
        ("SPARK_CONNECT_MODE_ENABLED", "A session of Spark Connect that was started.*another process"),
    ):
        machine.setenv(name, "1")
        with pytest.raises(EngineError, match=told):
            sfumato.spark.session()


@pytest.mark.parametrize(
    ("master", "setting", "variable", "run"),
    [
        ("local[*]", None, None, sys.executable),
        ("local[*]", None, "given", "given"),
        ("spark://there:7077", None, None, "python3"),
        ("yarn", None, "given", "given"),
        ("yarn", "set", None, "set"),
        ("yarn", "set", "given", "set"),
    ],
)
def test_which_python_workers_run(machine, java, master, setting, variable, run):
    """On other machines there need be nothing where this Python is."""
    machine.setenv("JAVA_HOME", java(says("17.0.1")))
    if variable:
        machine.setenv("PYSPARK_PYTHON", variable)
    conf = {"spark.pyspark.python": setting}
    context = SimpleNamespace(master=master, pythonExec=variable or "python3", getConf=lambda: conf)
    machine.setattr(SparkSession.Builder, "getOrCreate", lambda _: SimpleNamespace(sparkContext=context))
    assert sfumato.spark.session().sparkContext.pythonExec == run


@pytest.mark.parametrize("thread", [False, True])  # each thread of Python has one of Java
def test_a_session_that_runs_is_given_again_and_says_what_it_can_no_longer_take(spark, settings, thread):
    shuffles = "spark.sql.shuffle.partitions"
    settings({shuffles: spark.conf.get(shuffles)})  # put back at the end

    def ask():
        config = {"spark.master": spark.sparkContext.master, "spark.ui.enabled": False, shuffles: 7}
        assert sfumato.spark.session("again", config) is spark and spark.conf.get(shuffles) == "7"
        for _ in range(2):
            with pytest.warns(UserWarning, match="a session runs already.* spark.ui.port; stop it first"):
                assert sfumato.spark.session("again", {"spark.ui.port": 4999}) is spark

    with ThreadPoolExecutor(1) as another:
        another.submit(ask).result() if thread else ask()


def test_a_session_that_was_stopped_does_not_run(machine):
    stopped = SimpleNamespace(sparkContext=SparkContext.__new__(SparkContext))
    stopped.sparkContext._jsc = None  # as SparkContext.stop leaves it
    machine.setattr(SparkSession, "active", lambda: stopped)
    machine.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(AssertionError, match="Spark is started"):
        sfumato.spark.session("again", {"spark.ui.port": 4999})
