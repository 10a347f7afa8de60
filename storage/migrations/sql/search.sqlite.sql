-- The parts of schema 0007 by which lists are searched, filtered and sorted. Frozen; for a new database and for an earlier one.
--
-- Texts: on SQLite comparison_texts, FTS5 with the trigrams of comparisons.search, kept by triggers; its rows have the numbers of
-- comparisons.number, for VACUUM may change a rowid. It stores no places: what it finds is compared with the text.
-- comparison_trigrams lists the trigrams. On PostgreSQL an index by pg_trgm; where that cannot be made, texts are read one by one.
ALTER TABLE comparisons ADD COLUMN number BIGINT;
ALTER TABLE comparisons ADD COLUMN name_key BLOB DEFAULT x'ff' NOT NULL;
ALTER TABLE comparisons ADD COLUMN runs INTEGER DEFAULT 0 NOT NULL;
ALTER TABLE comparisons ADD COLUMN tokens_per_s DOUBLE DEFAULT -1 NOT NULL;
ALTER TABLE comparisons ADD COLUMN tau DOUBLE DEFAULT -1 NOT NULL;
ALTER TABLE comparisons ADD COLUMN new_tokens INTEGER DEFAULT -1 NOT NULL;
CREATE INDEX ix_comparisons_by_created_at ON comparisons (created_at, id, source, deleted_at);
CREATE INDEX ix_comparisons_by_owner ON comparisons (owner, created_at, id, source, deleted_at, runs);
CREATE INDEX ix_comparisons_by_tokens_per_s ON comparisons (tokens_per_s, created_at, id, source, owner, deleted_at);
CREATE INDEX ix_comparisons_by_tau ON comparisons (tau, created_at, id, source, owner, deleted_at);
CREATE INDEX ix_comparisons_by_new_tokens ON comparisons (new_tokens, created_at, id, source, owner, deleted_at);
CREATE INDEX ix_comparisons_by_name_key ON comparisons (name_key, created_at, id, source, owner, deleted_at);
CREATE INDEX ix_comparisons_deleted_at ON comparisons (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX ix_comparisons_number ON comparisons (number);
CREATE TABLE facets (comparison_id VARCHAR(32) NOT NULL, kind VARCHAR(8) NOT NULL, value TEXT NOT NULL, created_at DATETIME NOT NULL, source VARCHAR(16) NOT NULL, owner VARCHAR(64) DEFAULT '' NOT NULL, CONSTRAINT pk_facets PRIMARY KEY (comparison_id, kind, value), CONSTRAINT fk_facets_comparisons FOREIGN KEY (comparison_id) REFERENCES comparisons (id) ON DELETE CASCADE);
CREATE INDEX ix_facets_by_value ON facets (kind, value, created_at, comparison_id, source, owner);
CREATE INDEX ix_facets_by_owner ON facets (owner, kind, value);
UPDATE comparisons SET number = rowid;
CREATE VIRTUAL TABLE comparison_texts USING fts5(search, content = 'comparisons', content_rowid = 'number', tokenize = 'trigram case_sensitive 1', detail = none);
CREATE VIRTUAL TABLE comparison_trigrams USING fts5vocab(comparison_texts, row);
INSERT INTO comparison_texts (comparison_texts) VALUES ('rebuild');
CREATE TRIGGER comparisons_inserted AFTER INSERT ON comparisons BEGIN UPDATE comparisons SET number = (SELECT coalesce(max(number), 0) + 1 FROM comparisons) WHERE id = new.id AND number IS NULL; INSERT INTO comparison_texts (rowid, search) SELECT number, search FROM comparisons WHERE id = new.id; END;
CREATE TRIGGER comparisons_changed AFTER UPDATE OF search ON comparisons WHEN old.search <> new.search BEGIN INSERT INTO comparison_texts (comparison_texts, rowid, search) VALUES ('delete', old.number, old.search); INSERT INTO comparison_texts (rowid, search) SELECT number, search FROM comparisons WHERE id = new.id; END;
CREATE TRIGGER comparisons_deleted AFTER DELETE ON comparisons BEGIN INSERT INTO comparison_texts (comparison_texts, rowid, search) VALUES ('delete', old.number, old.search); END;
