"""The parts of schema 0007 by which lists are searched, filtered and sorted. Frozen; for a new database and for an earlier one.

Texts: on SQLite ``comparison_texts``, FTS5 with the trigrams of ``comparisons.search``, kept by triggers; its rows have the numbers of
``comparisons.number``, for VACUUM may change a rowid. It stores no places: what it finds is compared with the text.
``comparison_trigrams`` lists the trigrams. On PostgreSQL an index by pg_trgm; where that cannot be made, texts are read one by one.
"""

from __future__ import annotations

from sqlalchemy import Connection

_TYPES = {
    "sqlite": {"double": "DOUBLE", "time": "DATETIME", "bytes": "BLOB", "nameless": "x'ff'"},
    "postgresql": {
        "double": "DOUBLE PRECISION",
        "time": "TIMESTAMP WITH TIME ZONE",
        "bytes": "BYTEA",
        "nameless": r"'\xff'",
    },
}
_TABLES = (
    "ALTER TABLE comparisons ADD COLUMN number BIGINT",
    "ALTER TABLE comparisons ADD COLUMN name_key {bytes} DEFAULT {nameless} NOT NULL",
    "ALTER TABLE comparisons ADD COLUMN runs INTEGER DEFAULT 0 NOT NULL",
    "ALTER TABLE comparisons ADD COLUMN tokens_per_s {double} DEFAULT -1 NOT NULL",
    "ALTER TABLE comparisons ADD COLUMN tau {double} DEFAULT -1 NOT NULL",
    "ALTER TABLE comparisons ADD COLUMN new_tokens INTEGER DEFAULT -1 NOT NULL",
    "CREATE INDEX ix_comparisons_by_created_at ON comparisons (created_at, id, source, deleted_at)",
    "CREATE INDEX ix_comparisons_by_owner ON comparisons (owner, created_at, id, source, deleted_at, runs)",
    *(
        f"CREATE INDEX ix_comparisons_by_{key} ON comparisons ({key}, created_at, id, source, owner, deleted_at)"
        for key in ("tokens_per_s", "tau", "new_tokens", "name_key")
    ),
    "CREATE INDEX ix_comparisons_deleted_at ON comparisons (deleted_at) WHERE deleted_at IS NOT NULL",
    "CREATE UNIQUE INDEX ix_comparisons_number ON comparisons (number)",
    "CREATE TABLE facets (comparison_id VARCHAR(32) NOT NULL, kind VARCHAR(8) NOT NULL, value TEXT NOT NULL, created_at {time} NOT NULL, "
    "source VARCHAR(16) NOT NULL, owner VARCHAR(64) DEFAULT '' NOT NULL, CONSTRAINT pk_facets PRIMARY KEY (comparison_id, kind, value), "
    "CONSTRAINT fk_facets_comparisons FOREIGN KEY (comparison_id) REFERENCES comparisons (id) ON DELETE CASCADE)",
    "CREATE INDEX ix_facets_by_value ON facets (kind, value, created_at, comparison_id, source, owner)",
    "CREATE INDEX ix_facets_by_owner ON facets (owner, kind, value)",
)
_REMOVE = "INSERT INTO comparison_texts (comparison_texts, rowid, search) VALUES ('delete', old.number, old.search);"
_ADD = "INSERT INTO comparison_texts (rowid, search) SELECT number, search FROM comparisons WHERE id = new.id;"
_NEXT = "(SELECT coalesce(max(number), 0) + 1 FROM comparisons)"
_NUMBER = f"UPDATE comparisons SET number = {_NEXT} WHERE id = new.id AND number IS NULL;"
_TEXTS = {
    "sqlite": (
        "UPDATE comparisons SET number = rowid",
        "CREATE VIRTUAL TABLE comparison_texts USING fts5(search, content = 'comparisons', content_rowid = 'number', "
        "tokenize = 'trigram case_sensitive 1', detail = none)",
        "CREATE VIRTUAL TABLE comparison_trigrams USING fts5vocab(comparison_texts, row)",
        "INSERT INTO comparison_texts (comparison_texts) VALUES ('rebuild')",
        f"CREATE TRIGGER comparisons_inserted AFTER INSERT ON comparisons BEGIN {_NUMBER} {_ADD} END",
        "CREATE TRIGGER comparisons_changed AFTER UPDATE OF search ON comparisons WHEN old.search <> new.search "
        f"BEGIN {_REMOVE} {_ADD} END",
        f"CREATE TRIGGER comparisons_deleted AFTER DELETE ON comparisons BEGIN {_REMOVE} END",
    ),
    "postgresql": (
        "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm; "
        "CREATE INDEX ix_comparisons_search ON comparisons USING gin (search gin_trgm_ops); "
        "EXCEPTION WHEN OTHERS THEN NULL; END $$",
    ),
}


def add_search(connection: Connection) -> None:
    """To tables that have none of it. ``comparisons.runs`` and what depends on it is still to be written by ``reindex``."""
    dialect = connection.dialect.name
    for statement in (*(each.format(**_TYPES[dialect]) for each in _TABLES), *_TEXTS[dialect]):
        connection.exec_driver_sql(statement)
