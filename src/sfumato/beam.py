"""Releases in Apache Beam pipelines: `rows | sfumato.beam.Release(question, epsilon=..., delta=...)`.

Needs the extra: `pip install 'sfumato[beam]'`.
"""

from typing import TYPE_CHECKING

from sfumato.engines.beam.beam_elements import ToRows
from sfumato.engines.beam.beam_engine import Release, named
from sfumato.engines.worker_secret import CallableSecret, EnvironmentSecret, FileSecret
from sfumato.names import face

__all__ = [
    "CallableSecret",
    "EnvironmentSecret",
    "FileSecret",
    "Release",
    "ToRows",
    "named",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("beam", __all__)
