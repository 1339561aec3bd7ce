-- Blocks for PostgreSQL, from 14 on.

-- name: schema
-- All tables, version 1.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE schema_version (version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL);
CREATE TABLE runs (
    pos BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    state TEXT NOT NULL,
    seq BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    worker TEXT,
    parent TEXT,
    root TEXT NOT NULL,
    session TEXT,
    key TEXT UNIQUE,
    tags TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    due DOUBLE PRECISION,
    takeovers BIGINT NOT NULL,
    forked_from TEXT,
    forked_at BIGINT
);
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_forks ON runs (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX runs_worker ON runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX runs_running ON runs (pos) WHERE state = 'running';
CREATE INDEX runs_due ON runs (due) WHERE state = 'suspended' AND due IS NOT NULL;
CREATE INDEX runs_over ON runs (updated)
    WHERE state IN ('done', 'incomplete', 'failed', 'cancelled') AND parent IS NULL;
CREATE TABLE records (
    run BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    v BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    pos BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    UNIQUE (run, seq)
);
CREATE TABLE mail (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX mail_run ON mail (run_id, id);
CREATE TABLE requests (
    pos BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    op TEXT NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    body BYTEA NOT NULL,
    expires DOUBLE PRECISION,
    state TEXT NOT NULL,
    opened DOUBLE PRECISION NOT NULL,
    answer BYTEA,
    answered_by TEXT,
    channel TEXT,
    answered DOUBLE PRECISION
);
CREATE INDEX requests_run ON requests (run_id);
CREATE INDEX requests_open ON requests (pos) WHERE state = 'open';
CREATE TABLE answers (
    pos BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    verdict TEXT NOT NULL,
    answer BYTEA NOT NULL,
    given_by TEXT NOT NULL,
    channel TEXT NOT NULL,
    digest TEXT
);
CREATE INDEX answers_request ON answers (request_id, pos);
CREATE TABLE workers (worker TEXT PRIMARY KEY, about TEXT NOT NULL, beat DOUBLE PRECISION NOT NULL, lease DOUBLE PRECISION);
CREATE TABLE blobs (digest TEXT NOT NULL UNIQUE, data BYTEA NOT NULL);
CREATE TABLE links (run_id TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (run_id, digest));
CREATE INDEX links_digest ON links (digest);

-- name: has_schema
-- Whether this is a store already.
SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_version'

-- name: lock_schema
-- One process at a time looks whether the schema is there.
SELECT pg_advisory_xact_lock(hashtext('ferrule schema'))

-- name: lock_claims
-- One process at a time looks for what is due, so that none takes what another has just taken.
SELECT pg_advisory_xact_lock(hashtext('ferrule claims'))

-- name: lock_blobs
-- Nobody may begin to refer to bytes while it is found out which ones nobody refers to.
LOCK TABLE blobs IN EXCLUSIVE MODE

-- name: lock_run
-- How a run stands; nobody changes that before the end of the transaction.
SELECT state FROM runs WHERE run_id = ?1 FOR UPDATE

-- name: size
-- Bytes of what is kept: those of the tables sink only when they are vacuumed.
SELECT (SELECT COALESCE(SUM(LENGTH(body)), 0) FROM records) + (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM blobs)

-- name: due
-- Runs to be taken: three small sets, each found by its own index; not those that somebody writes just now. A blocked one
-- is taken to be cancelled or tried again only.
SELECT run_id, epoch, seq, takeovers, worker FROM runs
WHERE pos IN (
    SELECT pos FROM runs WHERE state = 'running' AND (worker IS NULL
        OR NOT EXISTS (SELECT 1 FROM workers WHERE workers.worker = runs.worker AND workers.beat > ?3 - COALESCE(workers.lease, CAST(?2 AS DOUBLE PRECISION))))
    UNION SELECT pos FROM runs WHERE state = 'suspended' AND due <= ?3
    UNION SELECT runs.pos FROM mail JOIN runs ON runs.run_id = mail.run_id
    WHERE runs.state = 'suspended' OR (runs.state = 'blocked' AND mail.kind IN ('cancel', 'resume'))
) AND definition IN (EACH(?1)) AND run_id = COALESCE(CAST(?5 AS TEXT), run_id)
ORDER BY pos LIMIT ?4 FOR UPDATE SKIP LOCKED

-- name: now
-- The clock that all workers share.
SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)

-- name: number
-- Of the transaction that is going on, to ask for its fate.
SELECT CAST(pg_current_xact_id() AS TEXT)

-- name: fate
-- What became of a transaction whose end nobody told us.
SELECT pg_xact_status(CAST(?1 AS xid8))
