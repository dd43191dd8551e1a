"""Releases on Beam whose workers are processes of their own, and are killed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import sfumato as sf
from sfumato.beam import EnvironmentSecret, Release, ToRows
from sfumato.engines.beam import beam_release as release_module

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ON_LOCALHOST = str(Path(__file__).with_name("on_localhost.py"))
SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("x", pa.float64())])
BIG = {"epsilon": 10**5, "delta": 1e-6}  # noise that rounds away
SUBPROCESS = [
    "--environment_type=beam:env:harness_subprocess_python:v1",
    f"--environment_config={sys.executable} -m apache_beam.runners.worker.sdk_worker_main",
    "--direct_num_workers=2",
]


def visits() -> pa.Table:
    order = range(900)
    columns = [[i % 97 for i in order], [f"p{i * i % 7}" for i in order], [float(i % 31) for i in order]]
    return pa.table(columns, schema=SCHEMA)


def question(keys=None, rows=SCHEMA):
    table = sf.scan(rows, privacy_unit="id").group_by("place", keys=keys).bound(groups=3, rows=2)
    return table.agg(n=sf.count(), people=sf.count_units(), total=sf.sum("x", lower=0, upper=30))


@pytest.fixture(scope="module")
def port_of():
    """Starts a service of Beam's that listens on this machine alone; says on which port."""
    services = []
    # A pool starts the first `python` that there is.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def start(module: str, *arguments: str) -> str:
        command = [sys.executable, ON_LOCALHOST, module, *arguments]
        service = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
        )
        told = next((m for line in service.stderr if (m := re.search(r"(?:on|at) port:? (\S+)", line))), None)
        logs = threading.Thread(target=lambda: [None for _ in service.stderr])  # as a full pipe would block
        logs.start()
        services.append((service, logs))
        assert told, f"{module} ended with {service.wait()}"
        return told[1].rpartition(":")[2]

    yield start
    for service, logs in services:
        service.terminate()
        service.wait()
        logs.join()
        service.stderr.close()


@pytest.fixture(scope="module")
def job_service(port_of):
    """Options with which a pipeline is submitted to a job service in a process of its own."""
    port = port_of("apache_beam.runners.portability.local_job_service_main")
    return ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]


@pytest.fixture(scope="module")
def worker_pool(port_of):
    """Options with which workers are those of a pool."""
    port = port_of("apache_beam.runners.worker.worker_pool_main", "--service_port=0")
    return ["--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]


@pytest.fixture(params=["processes", "pool"])
def workers(request, job_service):
    """Options of a job service, with workers that it starts, or of a pool."""
    pool = request.param == "pool"
    return [*job_service, *(request.getfixturevalue("worker_pool") if pool else SUBPROCESS)]


def test_dictionaries_batches_and_elements_agree_with_one_machine(workers, run, fixed_salt):
    rows = visits()
    expected = question(rows=rows).release(**BIG).to_arrow().to_pylist()

    def build(pipeline):
        shapes = {"dictionaries": rows.to_pylist(), "batches": rows.to_batches(max_chunksize=200)}
        found = [
            pipeline
            | f"{shape} made" >> beam.Create(elements)
            | f"{shape} released" >> question().release(**BIG)
            | f"{shape} told" >> beam.Map(lambda row, shape=shape: (shape, os.getpid(), row))
            for shape, elements in shapes.items()
        ]
        few = pipeline | beam.Create([tuple(row.values()) for row in shapes["dictionaries"]])
        few |= ToRows(
            SCHEMA, lambda visit: dict(zip(SCHEMA.names, visit, strict=True)) if visit[2] < 10 else None
        )
        table = sf.scan(SCHEMA, privacy_unit="id").group_by("place").bound(groups=7, rows=10)
        counted = few | "few" >> table.agg(n=sf.count()).release(**BIG)
        told = beam.Map(lambda row: ("elements", os.getpid(), (row["place"], row["n"])))
        return (*found, counted | told) | beam.Flatten()

    told = run(build, workers)
    assert {process for _, process, _ in told}.isdisjoint({os.getpid()})
    for shape in ("dictionaries", "batches"):
        found = sorted((row for name, _, row in told if name == shape), key=lambda row: row["place"])
        assert [{**row, "total": 0} for row in found] == [{**row, "total": 0} for row in expected]
        totals = [row["total"] for row in expected]
        assert [row["total"] for row in found] == pytest.approx(totals, abs=1)
    few = [row["place"] for row in rows.to_pylist() if row["x"] < 10]
    assert {kv for name, _, kv in told if name == "elements"} == {(p, few.count(p)) for p in set(few)}


def test_a_killed_worker_fails_the_job_and_the_next_jobs_release_the_same(job_service, tmp_path):
    """What it wrote has no name that looks complete; the runner puts no other worker in its place."""
    fatal, folder = str(tmp_path / "fatal"), str(tmp_path)

    def die_once(row):
        if row["place"] == "p4" and os.path.exists(fatal):
            os.remove(fatal)
            os.kill(os.getpid(), signal.SIGKILL)
        return repr(sorted(row.items()))

    pipeline = beam.Pipeline(options=PipelineOptions([*job_service, *SUBPROCESS]))
    rows = pipeline | beam.Create(visits().to_batches(max_chunksize=300))
    released = rows | question(["p0", "p1", "p2", "p4"]).release(epsilon=0.1)
    released | beam.Map(die_once) | beam.io.WriteToText(f"{folder}/released")
    Path(fatal).touch()
    with pytest.raises(RuntimeError, match="Channel closed|FAILED"):
        pipeline.run().wait_until_finish()
    assert not Path(fatal).exists()
    assert not list(tmp_path.glob("released*"))
    outputs = []
    for _ in range(2):
        assert pipeline.run().wait_until_finish() == "DONE"
        files = list(tmp_path.glob("released*"))
        outputs.append(sorted(line for file in files for line in file.read_text().splitlines()))
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 4


def test_a_planted_secret_of_the_worker_is_found(job_service, tmp_path, monkeypatch):
    drawn = release_module._drawn

    def fresh_in_the_worker(work, shard, parts):
        return drawn(replace(work, secret=secrets.token_bytes(32)), shard, parts)

    monkeypatch.setattr(release_module, "_drawn", fresh_in_the_worker)
    pipeline = beam.Pipeline(options=PipelineOptions([*job_service, *SUBPROCESS]))
    released = (
        pipeline
        | beam.Create(visits().to_batches())
        | question(["p0", "p1"]).release(epsilon=1e-9, noise="laplace")
    )
    released | beam.io.WriteToText(f"{tmp_path}/released")
    outputs = []
    for _ in range(2):
        pipeline.run().wait_until_finish()
        outputs.append(sorted(file.read_text() for file in tmp_path.glob("released*")))
    # Noise of scale 10^9: two draws are equal with a chance below 1e-9.
    assert outputs[0] != outputs[1]


SECRET = "SFUMATO_TEST_SECRET"


def test_workers_read_the_secret_where_they_run(port_of, tmp_path, monkeypatch):
    """What is submitted does not hold it; the same noise when it runs again, and none under another secret."""
    mine, theirs = hashlib.sha256(b"mine").hexdigest(), secrets.token_hex(32)
    mark = None
    outputs = []
    for place, secret in enumerate((mine, theirs)):
        monkeypatch.setenv(SECRET, secret)  # of the service, and of the workers that it starts
        service = port_of("apache_beam.runners.portability.local_job_service_main")
        mark = mark or EnvironmentSecret(SECRET).taken()
        monkeypatch.delenv(SECRET)
        options = ["--runner=PortableRunner", f"--job_endpoint=localhost:{service}", *SUBPROCESS]
        if not place:
            pipeline = beam.Pipeline(options=PipelineOptions(options))
            release = Release(
                question(["p0", "p1"]), epsilon=1e-9, secret=EnvironmentSecret(SECRET, fingerprint=mark)
            )
            released = pipeline | beam.Create(visits().to_batches()) | release
            released | beam.io.WriteToText(f"{tmp_path}/released")
            for _ in range(2):
                pipeline.run().wait_until_finish()
                outputs.append(sorted(file.read_text() for file in tmp_path.glob("released*")))
                for file in tmp_path.glob("released*"):
                    file.unlink()
        else:
            again = beam.Pipeline(options=PipelineOptions(options))
            rows = again | beam.Create(visits().to_batches())
            held = EnvironmentSecret(SECRET, fingerprint=mark)
            (
                rows
                | Release(question(["p0"]), epsilon=1, secret=held)
                | beam.io.WriteToText(f"{tmp_path}/released")
            )
            with pytest.raises(RuntimeError, match="FAILED|another secret"):
                again.run().wait_until_finish()
    assert outputs[0] == outputs[1]
    assert sum(map(len, outputs[0]))
    assert not list(tmp_path.glob("released*"))


def test_direct_workers_in_processes_run_the_example():
    command = [
        sys.executable,
        ON_LOCALHOST,
        str(ROOT / "examples/beam_release.py"),
        "--runner=FnApiRunner",
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'rating':") == 10
    assert all(f"{{'decade': {decade}, " in done.stdout for decade in range(1970, 2020, 10))
