"""Releases on Beam whose workers are processes of their own, find the secret where they run, and are killed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import sfumato as sf
from sfumato.beam import EnvironmentSecret, Release

pytestmark = pytest.mark.long

ON_LOCALHOST = str(Path(__file__).with_name("on_localhost.py"))
SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("x", pa.float64())])
PROCESSES = [
    "--environment_type=beam:env:harness_subprocess_python:v1",
    f"--environment_config={sys.executable} -m apache_beam.runners.worker.sdk_worker_main",
    "--direct_num_workers=2",
]
SECRET = "SFUMATO_TEST_SECRET"


def visits() -> pa.Table:
    order = range(900)
    columns = [[i % 97 for i in order], [f"p{i * i % 7}" for i in order], [float(i % 31) for i in order]]
    return pa.table(columns, schema=SCHEMA)


def question(keys):
    table = sf.scan(SCHEMA, privacy_unit="id").group_by("place", keys=keys).bound(groups=7, rows=10)
    return table.agg(n=sf.count())


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


def job_service(port_of) -> list[str]:
    """Return options with which a pipeline is submitted to a job service in a process of its own."""
    port = port_of("apache_beam.runners.portability.local_job_service_main")
    return ["--runner=PortableRunner", f"--job_endpoint=localhost:{port}"]


def test_killed_workers_fail_the_job_and_the_next_jobs_release_the_same(port_of, tmp_path, monkeypatch):
    """What a killed one wrote has no name that looks complete. What is submitted does not hold the secret: workers read it
    where they run, and where they find another one they draw nothing."""
    fatal, folder = str(tmp_path / "fatal"), str(tmp_path)
    services = []
    for text in (hashlib.sha256(b"mine").hexdigest(), secrets.token_hex(32)):
        monkeypatch.setenv(SECRET, text)  # of the service, and of the workers that it starts
        services.append([*job_service(port_of), *PROCESSES])
        if len(services) == 1:
            mark = EnvironmentSecret(SECRET).taken()
    monkeypatch.delenv(SECRET)

    def die_once(row):
        if row["place"] == "p4" and os.path.exists(fatal):
            os.remove(fatal)
            os.kill(os.getpid(), signal.SIGKILL)
        return repr(sorted(row.items()))

    def built(options):
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        held = EnvironmentSecret(SECRET, fingerprint=mark)
        released = pipeline | beam.Create(visits().to_batches(max_chunksize=300))
        released |= Release(question(["p0", "p1", "p2", "p4"]), epsilon=1e-9, secret=held)
        released | beam.Map(die_once) | beam.io.WriteToText(f"{folder}/released")
        return pipeline

    pipeline, outputs = built(services[0]), []
    Path(fatal).touch()
    with pytest.raises(RuntimeError, match="Channel closed|FAILED"):
        pipeline.run().wait_until_finish()
    assert not Path(fatal).exists() and not list(tmp_path.glob("released*"))
    for _ in range(2):
        assert pipeline.run().wait_until_finish() == "DONE"
        files = list(tmp_path.glob("released*"))
        outputs.append(sorted(line for file in files for line in file.read_text().splitlines()))
        for file in files:
            file.unlink()
    assert outputs[0] == outputs[1] and len(outputs[0]) == 4
    with pytest.raises(RuntimeError, match="FAILED|another secret"):
        built(services[1]).run().wait_until_finish()
    assert not list(tmp_path.glob("released*"))
