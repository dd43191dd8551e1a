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


def test_no_java(machine, tmp_path):
    machine.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EngineError, match="Java 17.*none on the path, and JAVA_HOME is not set; install.*apt"
    ):
        sfumato.spark.session()


def test_java_home_without_java(machine, tmp_path):
    """JAVA_HOME goes before the path, as in Spark's own launcher."""
    machine.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=f"JAVA_HOME is '{tmp_path}', which has no bin/java; install"):
        sfumato.spark.session()


@pytest.mark.parametrize(
    ("version", "number"), [("1.8.0_292", 8), ("11.0.2", 11), ("16", 16), ("17", None), ("21-ea", None)]
)
def test_java_that_is_too_old(machine, java, tmp_path, version, number):
    machine.setenv("JAVA_HOME", java(says(version)))
    error = EngineError if number else AssertionError
    with pytest.raises(error, match=f"Java 17 or newer.*is Java {number};" if number else "Spark is started"):
        sfumato.spark.session()
    assert (tmp_path / "calls").read_text() == "-version\n"


def test_java_on_the_path_that_is_too_old(machine, java):
    machine.setenv("PATH", f"{java(says('11.0.2'))}/bin")
    with pytest.raises(EngineError, match="is Java 11;"):
        sfumato.spark.session()


def test_java_that_does_not_run(machine, java):
    machine.setenv("JAVA_HOME", java("exit 1"))
    with pytest.raises(EngineError, match="does not run"):
        sfumato.spark.session()


def test_java_that_names_no_version_is_left_to_spark(machine, java):
    machine.setenv("JAVA_HOME", java("echo something"))
    with pytest.raises(AssertionError, match="Spark is started"):
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


@pytest.mark.parametrize("setting", ["spark.remote", "spark.api.mode"])
def test_connect_is_refused(machine, setting):
    with pytest.raises(EngineError, match=f"{setting} asks for Spark Connect"):
        sfumato.spark.session(config={setting: "connect"})
    machine.setenv("SPARK_REMOTE", "sc://there")
    with pytest.raises(EngineError, match="SPARK_REMOTE asks for Spark Connect"):
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


def test_a_session_that_runs_is_given_again(spark):
    assert type(spark) is SparkSession
    shuffles = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert sfumato.spark.session("again", {"spark.sql.shuffle.partitions": 7}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", shuffles)


@pytest.mark.parametrize("thread", [False, True])  # each thread of Python has one of Java
def test_a_session_that_runs_says_what_it_can_no_longer_take(spark, thread):
    def ask():
        threads = spark.sparkContext.master
        sfumato.spark.session("again", {"spark.master": threads, "spark.ui.enabled": False})
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


def test_a_session_of_connect_in_this_process_is_told(machine):
    machine.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(EngineError, match="A session of Spark Connect that was started.*another process"):
        sfumato.spark.session()
