"""Sessions of Apache Spark for releases: `sf.scan(sfumato.spark.session().read.parquet(...), ...)`.

Needs the extra, `pip install 'sfumato[spark]'`, and Java; `session` says which of them is missing.
"""

from sfumato.engines.spark.session import session

__all__ = ["session"]
