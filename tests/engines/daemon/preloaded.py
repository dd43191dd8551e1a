"""The process of which Spark forks its Python workers in tests, with what they need already there.

Each would import it for a second, and look through it for garbage after each of its tasks.
"""

if __name__ == "__main__":
    import gc

    import pandas  # noqa: F401
    from pyspark import daemon, worker  # noqa: F401

    import sfumato.engines.spark.tasks  # noqa: F401

    gc.collect()
    gc.freeze()
    daemon.manager()
