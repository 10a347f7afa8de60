-- The schema of 0.1.0 but for what lists are searched and sorted by (search). Frozen.
CREATE TABLE studies (
    id VARCHAR(32) NOT NULL,
    created_at DATETIME NOT NULL,
    name TEXT NOT NULL,
    tasks INTEGER NOT NULL,
    "plan" JSON NOT NULL,
    owner VARCHAR(64) DEFAULT '' NOT NULL,
    CONSTRAINT pk_studies PRIMARY KEY (id)
);
CREATE INDEX ix_studies_created_at_id ON studies (created_at, id);
CREATE INDEX ix_studies_owner_created_at_id ON studies (owner, created_at, id);
CREATE TABLE sweeps (
    id VARCHAR(32) NOT NULL,
    created_at DATETIME NOT NULL,
    status VARCHAR(16) NOT NULL,
    "plan" JSON NOT NULL,
    results JSON NOT NULL,
    owner VARCHAR(64) DEFAULT '' NOT NULL,
    CONSTRAINT pk_sweeps PRIMARY KEY (id)
);
CREATE INDEX ix_sweeps_created_at_id ON sweeps (created_at, id);
CREATE INDEX ix_sweeps_owner_created_at_id ON sweeps (owner, created_at, id);
CREATE TABLE comparisons (
    id VARCHAR(32) NOT NULL,
    created_at DATETIME NOT NULL,
    chat BOOLEAN NOT NULL,
    prompt TEXT NOT NULL,
    system TEXT NOT NULL,
    stop JSON NOT NULL,
    name TEXT DEFAULT '' NOT NULL,
    tags JSON DEFAULT '[]' NOT NULL,
    comment TEXT DEFAULT '' NOT NULL,
    source VARCHAR(16) DEFAULT 'compare' NOT NULL,
    sweep_id VARCHAR(32),
    deleted_at DATETIME,
    owner VARCHAR(64) DEFAULT '' NOT NULL,
    search TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_comparisons PRIMARY KEY (id),
    CONSTRAINT fk_comparisons_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE SET NULL
);
CREATE INDEX ix_comparisons_sweep_id ON comparisons (sweep_id);
CREATE TABLE study_tasks (
    study_id VARCHAR(32) NOT NULL,
    task INTEGER NOT NULL,
    token VARCHAR(32),
    worker TEXT,
    claimed_until DATETIME,
    done_at DATETIME,
    comparison_ids JSON DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_study_tasks PRIMARY KEY (study_id, task),
    CONSTRAINT fk_study_tasks_studies FOREIGN KEY(study_id) REFERENCES studies (id) ON DELETE CASCADE
);
CREATE INDEX ix_study_tasks_open ON study_tasks (study_id, task) WHERE done_at IS NULL;
CREATE TABLE runs (
    id VARCHAR(32) NOT NULL,
    comparison_id VARCHAR(32) NOT NULL,
    lane INTEGER NOT NULL,
    execution_order INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    status VARCHAR(16) NOT NULL,
    stop_reason VARCHAR(16) NOT NULL,
    rule TEXT NOT NULL,
    rule_parameters JSON NOT NULL,
    drafter TEXT NOT NULL,
    drafter_model TEXT,
    drafter_revision TEXT,
    k INTEGER NOT NULL,
    draft_mode VARCHAR(16) NOT NULL,
    tree_tokens INTEGER,
    tree_depth INTEGER,
    tree_top_k INTEGER,
    target TEXT NOT NULL,
    target_revision TEXT,
    temperature DOUBLE,
    top_k BIGINT NOT NULL,
    top_p DOUBLE,
    max_new_tokens BIGINT NOT NULL,
    seed BIGINT NOT NULL,
    thinking BOOLEAN,
    pass_rows INTEGER,
    pass_width INTEGER,
    new_tokens INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    wall_s DOUBLE,
    ttft_s DOUBLE,
    prefill_s DOUBLE,
    draft_s DOUBLE,
    verify_s DOUBLE,
    tokens_per_s DOUBLE,
    tau DOUBLE,
    drafted INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    relaxed INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    recovered INTEGER NOT NULL,
    bonus INTEGER NOT NULL,
    acceptance_rate DOUBLE,
    relaxed_share DOUBLE,
    tv_sum DOUBLE,
    tv_mean DOUBLE,
    tv_max DOUBLE,
    kl_sum DOUBLE,
    kl_mean DOUBLE,
    kl_max DOUBLE,
    shifted_share DOUBLE,
    log_likelihood DOUBLE,
    perplexity DOUBLE,
    peak_memory_bytes BIGINT NOT NULL,
    acceptance_by_position JSON NOT NULL,
    environment JSON NOT NULL,
    error TEXT NOT NULL,
    prompt_ids JSON NOT NULL,
    text TEXT NOT NULL,
    prefix JSON DEFAULT '[]' NOT NULL,
    given JSON DEFAULT '[]' NOT NULL,
    history JSON DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (id),
    CONSTRAINT uq_runs UNIQUE (comparison_id, lane, execution_order),
    CONSTRAINT fk_runs_comparisons FOREIGN KEY(comparison_id) REFERENCES comparisons (id) ON DELETE CASCADE
);
CREATE TABLE shares (
    token_hash VARCHAR(64) NOT NULL,
    owner VARCHAR(64) NOT NULL,
    created_at DATETIME NOT NULL,
    comparison_id VARCHAR(32),
    sweep_id VARCHAR(32),
    study_id VARCHAR(32),
    CONSTRAINT pk_shares PRIMARY KEY (token_hash),
    CHECK (CASE WHEN comparison_id IS NULL THEN 0 ELSE 1 END + CASE WHEN sweep_id IS NULL THEN 0 ELSE 1 END + CASE WHEN study_id IS NULL THEN 0 ELSE 1 END = 1),
    CONSTRAINT uq_shares_comparison_id UNIQUE (comparison_id),
    CONSTRAINT uq_shares_sweep_id UNIQUE (sweep_id),
    CONSTRAINT uq_shares_study_id UNIQUE (study_id),
    CONSTRAINT fk_shares_comparisons FOREIGN KEY(comparison_id) REFERENCES comparisons (id) ON DELETE CASCADE,
    CONSTRAINT fk_shares_sweeps FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_shares_studies FOREIGN KEY(study_id) REFERENCES studies (id) ON DELETE CASCADE
);
CREATE INDEX ix_shares_owner_created_at ON shares (owner, created_at);
CREATE TABLE study_results (
    study_id VARCHAR(32) NOT NULL,
    task INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    worker TEXT NOT NULL,
    execution_order INTEGER NOT NULL,
    run_ids JSON NOT NULL,
    data JSON NOT NULL,
    relative JSON,
    CONSTRAINT pk_study_results PRIMARY KEY (study_id, task, lane),
    CONSTRAINT fk_study_results_study_tasks FOREIGN KEY(study_id, task) REFERENCES study_tasks (study_id, task) ON DELETE CASCADE
);
CREATE INDEX ix_study_results_study_id_worker_created_at ON study_results (study_id, worker, created_at);
CREATE TABLE judgements (
    study_id VARCHAR(32) NOT NULL,
    task INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    swapped BOOLEAN NOT NULL,
    created_at DATETIME NOT NULL,
    judge TEXT NOT NULL,
    choice VARCHAR(16) NOT NULL,
    text TEXT NOT NULL,
    CONSTRAINT pk_judgements PRIMARY KEY (study_id, task, lane, swapped),
    CONSTRAINT fk_judgements_study_results FOREIGN KEY(study_id, task, lane) REFERENCES study_results (study_id, task, lane) ON DELETE CASCADE
);
CREATE TABLE run_traces (
    run_id VARCHAR(32) NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    CONSTRAINT pk_run_traces PRIMARY KEY (run_id),
    CONSTRAINT fk_run_traces_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE votes (
    id VARCHAR(32) NOT NULL,
    comparison_id VARCHAR(32) NOT NULL,
    created_at DATETIME NOT NULL,
    choice VARCHAR(16) NOT NULL,
    left_run_id VARCHAR(32) NOT NULL,
    right_run_id VARCHAR(32) NOT NULL,
    comment TEXT NOT NULL,
    CONSTRAINT pk_votes PRIMARY KEY (id),
    CONSTRAINT uq_votes UNIQUE (comparison_id),
    CONSTRAINT fk_votes_comparisons FOREIGN KEY(comparison_id) REFERENCES comparisons (id) ON DELETE CASCADE,
    CONSTRAINT fk_votes_left_run FOREIGN KEY(left_run_id) REFERENCES runs (id) ON DELETE CASCADE,
    CONSTRAINT fk_votes_right_run FOREIGN KEY(right_run_id) REFERENCES runs (id) ON DELETE CASCADE
);
