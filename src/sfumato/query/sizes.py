"""Sizes at which an engine computes the same answer in another way.

No answer depends on any of them, and none is a limit for the user. Read them as `sizes.NAME` when they are
needed, as a test makes all of them small: what stands behind a size that no test reaches is not tested.
"""

# Exact queries. With fewer rows, plain statements save more planning time than they cost.
FEW_ROWS = 100_000
# A unit's hashes in a bitmap: the bits of a word, the words, and the limit's groups for each word.
BITMAP_BITS, BITMAP_WORDS, GROUPS_PER_WORD = 63, 8, 20
# Copies of a row are written out in two steps, so that no list of them is long.
COPIES = 1 << 11
# Numbers up to this are divided as BIGINTs, which leaves room for what is added before the division.
BIGINT_ROOM = 1 << 62
# More values than this are looked up in a list, in a fifth of the time.
LISTED_BINS = 64
# Parts of a column, between rows left out, that are put together one by one; for more, functions
# of pyarrow are loaded, which takes longer than a small release.
KEPT_PARTS = 64
# Groups that a release handles at a time; a walk down a quantile tree holds about 20 kB for each group.
BATCH_GROUPS, BATCH_TREES = 1 << 16, 1 << 10

# Joins. In tables of as many rows, units are counted in buckets first, which fit in a cache.
COUNTED_ROWS, COUNTED_BUCKETS = 1_000_000, 1 << 18

# Matchings. With more values or pairs, DuckDB looks at all of them; it can spill to disk.
MATCHED_VALUES, MATCHED_PAIRS = 2_000_000, 16_000_000
# Rows to read first: as many as show a value of average frequency so often, and no fewer than the second.
ROWS_OF_A_VALUE, FIRST_ROWS = 6, 1 << 18
# With more values than the first, as many rows as the second are read at once.
MANY_VALUES, FIRST_ROWS_OF_MANY = 1 << 18, 12_000_000
# With a larger share of the values left out, it takes as long to look at all pairs.
SHARE_LEFT_OUT = 1 / 2
# Rows of a batch, and looks at pairs before all pairs are looked at.
PAIRS_AT_ONCE, LOOKS = 131_072, 6
# Buckets of units, and rounds in which pairs are left out, before the rest is left to SciPy.
UNIT_BUCKETS, PRUNINGS = 1 << 22, 20
# Whole numbers within such a range are numbered by a table.
TABLE_RANGE = 1 << 22

# Sources: rows, or bytes, that are read at a time.
PARQUET_ROWS, SQLITE_ROWS, TEXT_RECORDS = 1 << 16, 1 << 14, 1 << 16
FIRST_TEXT_BYTES, TEXT_BYTES = 1 << 16, 1 << 20
# A larger block of lines is read record by record, as notes about each byte would take too much memory.
BLOCK_BYTES = 1 << 23
# Column chunks of Parquet files whose statistics are looked at, at 5 microseconds each.
FOOTER_CHUNKS = 2_000
# Conditions that are kept apart, and constants that are computed in one statement.
CONDITIONS, CONSTANTS = 50, 500
# Idle databases, and sessions after which a database is opened anew.
IDLE_DATABASES, SESSIONS = 4, 50

# Stages on workers. A payload is in memory as a whole, and 2 GiB are too much for most runners.
STAGE_ROWS, PAYLOAD_BYTES = 1 << 16, 1 << 25
# Spark: bytes of a shard of units, by Spark's estimate, which is of compressed rows.
SHARD_BYTES = 32 << 20
# Beam: rows wait as they came, then as Python objects, then as Arrow columns, before DuckDB sums them.
READ_ROWS, BEAM_ROWS, WAITING_BYTES = 1 << 6, 1 << 16, 1 << 26
# Parts of a shard are added up when so much, or so many, came since the last time; before a shuffle too.
JOIN_BYTES, JOIN_PARTS = 1 << 25, 1 << 10
SHUFFLE_BYTES, SHUFFLE_PARTS = 1 << 20, 1 << 4
# Bytes of a column of a batch (Arrow's texts end at 2 GiB), and public keys that are sent at a time.
COLUMN_BYTES, BATCH_KEYS = 1 << 26, 1 << 16
