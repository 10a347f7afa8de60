"""The index of texts, beside the tables: on SQLite FTS5 with trigrams of ``comparisons.search``, kept by triggers; on PostgreSQL pg_trgm.

``comparison_texts`` has a row a comparison under ``comparisons.number``, for VACUUM may change a rowid. Trigrams alone are stored,
without places: what they find is compared with the text. ``comparison_trigrams`` lists them. Where PostgreSQL's extension cannot be made,
texts are read one by one.
"""

from __future__ import annotations

_REMOVE = "INSERT INTO comparison_texts (comparison_texts, rowid, search) VALUES ('delete', old.number, old.search);"
_ADD = "INSERT INTO comparison_texts (rowid, search) SELECT number, search FROM comparisons WHERE id = new.id;"
_NUMBER = "UPDATE comparisons SET number = (SELECT coalesce(max(number), 0) + 1 FROM comparisons) WHERE id = new.id;"
CREATE = {
    "sqlite": (
        "CREATE VIRTUAL TABLE comparison_texts USING fts5(search, content = 'comparisons', content_rowid = 'number', "
        "tokenize = 'trigram case_sensitive 1', detail = none)",
        "CREATE VIRTUAL TABLE comparison_trigrams USING fts5vocab(comparison_texts, row)",
        f"CREATE TRIGGER comparisons_inserted AFTER INSERT ON comparisons BEGIN {_NUMBER} {_ADD} END",
        "CREATE TRIGGER comparisons_changed AFTER UPDATE OF search ON comparisons WHEN old.search <> new.search "
        f"BEGIN {_REMOVE} {_ADD} END",
        f"CREATE TRIGGER comparisons_deleted AFTER DELETE ON comparisons BEGIN {_REMOVE} END",
    ),
    "postgresql": (
        """
        DO $$ BEGIN
            CREATE EXTENSION IF NOT EXISTS pg_trgm;
            CREATE INDEX ix_comparisons_search ON comparisons USING gin (search gin_trgm_ops);
        EXCEPTION WHEN OTHERS THEN NULL;
        END $$
        """,
    ),
}
