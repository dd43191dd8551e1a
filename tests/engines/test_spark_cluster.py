"""Work that a cluster does twice: a speculative twin, and an executor that is killed with released numbers.

Spark starts no twin on the machine of the first attempt, and none at all in a local session. So this is a
standalone cluster of two workers, on two names of this machine, and the file is also the program that runs there:

    python test_spark_cluster.py MASTER FOLDER
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

KINDS = ("honest", "careless")
EVENTS = ("twin", "killed")
pytestmark = [
    pytest.mark.long,
    pytest.mark.flakiness(k=30, because="two draws of 27 numbers of noise of 25 or more are not alike"),
]
# Upper bounds in seconds, for a machine that does much else.
LONG, LONGEST = 120, 400
# Little compiling, and one thread that collects: quick to start on a small machine.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOCAL = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}


# The program on the cluster.
def executor() -> int:
    """Return the process of this Python worker's executor, the parent of the daemon that forked it."""
    said = subprocess.run(["ps", "-o", "ppid=", "-p", str(os.getppid())], capture_output=True, check=True)
    return int(said.stdout)


def keeping(place: str, event: str):
    """Return a task that writes down the numbers of each attempt; the very first one has an event."""

    def attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        released = list(batches)
        task, mine = TaskContext.get(), executor()
        others = os.open(Path(place, f"{task.partitionId()}.others"), os.O_RDWR)
        numbers = [row for batch in released for row in batch.to_pylist()]
        part = Path(place, f"{task.partitionId()}-{task.taskAttemptId()}-{mine}.part")
        part.write_text(repr(numbers))
        part.rename(part.with_suffix(".numbers"))
        try:
            os.close(os.open(Path(place, "first"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            os.write(others, b"!")
        else:
            if event == "killed":
                os.kill(mine, signal.SIGKILL)
                os._exit(1)
            if not select.select([others], [], [], LONG)[0]:
                Path(place, "alone").touch()
        os.close(others)
        yield from released

    return attempt


def main(master: str, folder: str) -> None:
    import test_spark
    from pyspark import cloudpickle

    import sfumato.spark

    # Workers cannot import these files.
    cloudpickle.register_pickle_by_value(test_spark)
    settings = {
        "spark.master": master,
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.driver.extraJavaOptions": JAVA,
        "spark.default.parallelism": 2,
        "spark.sql.shuffle.partitions": 2,
        "spark.locality.wait": 0,
        "spark.speculation": True,
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": 0.5,
    }
    session = sfumato.spark.session("work done twice", settings)
    asked = test_spark.question(session.createDataFrame(test_spark.ROWS))
    engine = asked.table._engine
    for event in EVENTS:  # kills at the end, when nobody waits for another executor
        for kind in KINDS:
            work = engine.work(asked.plan(**test_spark.BUDGET))
            if kind == "careless":
                work = test_spark.Careless(work.stages, work.measurement)
            frame = engine.released(work)
            place = Path(folder, f"{kind}-{event}")
            place.mkdir()
            for partition in range(2):
                os.mkfifo(place / f"{partition}.others")
            rows = frame.mapInArrow(keeping(str(place), event), frame.schema).toArrow()
            (place / "result").write_text(repr(rows.to_pylist()))
    session.stop()


# The cluster, and what came of it.
@contextmanager
def daemon(what: str, *arguments: str, says: str):
    """Run a part of the cluster; give the rest of the first line that says something."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [program, f"org.apache.spark.deploy.{what}", "--webui-port", "0", *arguments]
    options = f"{JAVA} -Dspark.master.rest.enabled=false"
    with subprocess.Popen(
        command,
        env=LOCAL | {"SPARK_DAEMON_JAVA_OPTS": options},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines = iter(process.stdout.readline, "")
        before = []
        for line in lines:
            before.append(line)
            if says in line:
                break
        rest = Thread(target=deque, args=(lines, 0))  # a full pipe would stop the process
        rest.start()
        try:
            assert says in before[-1], "".join(before)
            yield before[-1].partition(says)[2].split()[0]
        finally:
            process.terminate()
            rest.join()


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """The folder in which the program has left what its attempts held."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as cluster:
        where = ("master.Master", "--host", "127.0.0.1", "--port", "0")
        master = cluster.enter_context(daemon(*where, says="Starting Spark master at "))
        for host in ("127.0.0.1", "localhost"):
            size = ("--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host))
            cluster.enter_context(
                daemon("worker.Worker", *size, master, says="Successfully registered with master ")
            )
        command = [sys.executable, __file__, master, str(folder)]
        environment = LOCAL | {"PYSPARK_PYTHON": sys.executable}
        ran = subprocess.run(
            command, check=False, capture_output=True, env=environment, text=True, timeout=LONGEST
        )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return folder


def test_both_attempts_hold_the_same_numbers(done):
    """And a release whose secret is drawn where the noise is, the planted defect, does not."""
    for event, kind in product(EVENTS, KINDS):  # one test, so that one process starts a cluster
        place = done / f"{kind}-{event}"
        assert not (place / "alone").exists(), f"no speculative twin came in {LONG} seconds"
        attempts: dict[str, list[tuple[str, str]]] = {}
        for file in place.glob("*.numbers"):
            partition, _, executor = file.stem.split("-")
            attempts.setdefault(partition, []).append((executor, file.read_text()))
        assert len(attempts) == 2
        twice = [held for held in attempts.values() if len({executor for executor, _ in held}) > 1]
        assert twice, "two executors had the numbers of one task in their hands"
        assert all(len({numbers for _, numbers in held}) == 1 for held in twice) is (kind == "honest")
        # What came out is what some attempt held.
        result = (place / "result").read_text()
        assert result.count("'g'") == 9
        assert all(any(numbers[1:-1] in result for _, numbers in held) for held in attempts.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
