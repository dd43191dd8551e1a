"""Sessions of Apache Spark for releases: `sf.scan(sfumato.spark.session().read.parquet(...), ...)`.

Needs the extra, `pip install 'sfumato[spark]'`, and Java; `session` says which of them is missing, as
Spark's own launcher says neither what nor where.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato.errors import EngineError, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]

# The oldest that Spark 4 runs on.
JAVA = 17


def session(name: str = "sfumato", config: Mapping[str, object] | None = None) -> SparkSession:
    """Return the running Spark session, or start one if everything that it needs is there.

    Workers on this machine run this Python unless PYSPARK_PYTHON or spark.pyspark.python names another. On
    other machines these two settings determine what workers run.

    Args:
        name: the name of the application on Spark's pages.
        config: Spark's settings by name, such as "spark.sql.shuffle.partitions". Without "spark.master" it is
            spark-submit's, or that of Spark's configuration files, or this machine, "local[*]".
    Returns:
        A classic session. If one is already running, settings that can still change are applied, and a
        warning names the others.
    Raises:
        EngineError: pyspark, the pandas that it requires, or Java 17 is missing, or it would be a Spark
            Connect session; nothing has been started then.

    >>> session(config={"spark.remote": "sc://cluster"})
    Traceback (most recent call last):
    sfumato.errors.EngineError: spark.remote selects Spark Connect, which is not supported. ...
    """
    for module in ("pyspark", "pandas"):  # without pandas pyspark runs no function of Python
        require(module, "spark")
    settings = {"spark.app.name": name, "spark.api.mode": "classic", **(config or {})}
    _check_classic(settings)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config(map=settings)
    running = _running()
    if running is not None:
        _warn_of_late(running, config or {})
        return builder.getOrCreate()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit, which is Java, has started this program
        _check_java()
    started = builder.getOrCreate()
    context = started.sparkContext
    # Spark itself reads the setting in spark-submit alone, and else takes the first `python3` on the path.
    python = context.getConf().get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if python or context.master.startswith("local"):
        context.pythonExec = python or sys.executable
    return started


def _running() -> SparkSession | None:
    """Return the running Spark session; `getActiveSession` knows this thread's alone.

    Each thread of Python has one of Java, and another one after a call that was interrupted.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
        session.sparkContext.defaultParallelism  # noqa: B018 - which a context that was stopped cannot tell
    except (PySparkRuntimeError, AttributeError):
        return None
    return session


def _warn_of_late(running: SparkSession, config: Mapping[str, object]) -> None:
    started = running.sparkContext.getConf()
    late = [
        name
        for name, value in config.items()
        if not running.conf.isModifiable(name) and (started.get(name) or "").lower() != str(value).lower()
    ]
    if late:
        warnings.warn(
            f"a session is already running, and cannot change {', '.join(late)}. Stop it first, "
            "SparkSession.getActiveSession().stop(), or leave these settings out",
            stacklevel=3,
        )


def _check_classic(settings: Mapping[str, object]) -> None:
    asked = [name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ]
    if "spark.remote" in settings:
        asked.append("spark.remote")
    if settings["spark.api.mode"] != "classic":
        asked.append("spark.api.mode")
    if asked:
        raise EngineError(
            f"{' and '.join(asked)} selects Spark Connect, which is not supported. Leave it out, "
            "and name a cluster in spark.master, in a new process if SPARK_CONNECT_MODE_ENABLED is "
            "set here"
        )


def _check_java() -> None:
    """Refuse a Spark session without Java 17, found as bin/spark-class does."""
    if _site_settings():
        return  # they may say where Java is
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        nowhere = f"JAVA_HOME is {home!r}, which has no bin/java"
        raise _no_java(nowhere if home else "there is none on the path, and JAVA_HOME is not set")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise _no_java(f"{java} does not run: {error}") from None
    version = re.search(rb'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if version and int(version[1]) < JAVA:
        raise _no_java(f"{java} is Java {int(version[1])}")


def _site_settings() -> bool:
    """Return whether Spark's launcher runs a site script before it looks for Java."""
    folder = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME') or os.devnull}/conf"
    return os.path.isfile(f"{folder}/spark-env.sh")


def _no_java(found: str) -> EngineError:
    return EngineError(
        f"Spark needs Java {JAVA} or newer, but {found}. Install it (on Debian or Ubuntu: apt "
        f"install openjdk-{JAVA}-jre-headless), or set JAVA_HOME to its folder"
    )
