-- Blocks for SQLite, from 3.40 on. One connection writes at a time, so nothing needs a lock of its own.

-- name: schema
-- All tables, version 1.
CREATE TABLE schema_version (version INTEGER NOT NULL, at REAL NOT NULL) STRICT;
CREATE TABLE runs (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    state TEXT NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT,
    parent TEXT,
    root TEXT NOT NULL,
    session TEXT,
    key TEXT UNIQUE,
    tags TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    due REAL,
    takeovers INTEGER NOT NULL,
    forked_from TEXT,
    forked_at INTEGER
) STRICT;
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_forks ON runs (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX runs_worker ON runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX runs_running ON runs (pos) WHERE state = 'running';
CREATE INDEX runs_due ON runs (due) WHERE state = 'suspended' AND due IS NOT NULL;
CREATE INDEX runs_over ON runs (updated)
    WHERE state IN ('done', 'incomplete', 'failed', 'cancelled') AND parent IS NULL;
CREATE TABLE records (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    v INTEGER NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    pos INTEGER PRIMARY KEY,
    UNIQUE (run, seq)
) STRICT;
CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX mail_run ON mail (run_id, id);
CREATE TABLE requests (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    op TEXT NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    body BLOB NOT NULL,
    expires REAL,
    state TEXT NOT NULL,
    opened REAL NOT NULL,
    answer BLOB,
    answered_by TEXT,
    channel TEXT,
    answered REAL
) STRICT;
CREATE INDEX requests_run ON requests (run_id);
CREATE INDEX requests_open ON requests (pos) WHERE state = 'open';
CREATE TABLE answers (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id TEXT NOT NULL,
    at REAL NOT NULL,
    verdict TEXT NOT NULL,
    answer BLOB NOT NULL,
    given_by TEXT NOT NULL,
    channel TEXT NOT NULL,
    digest TEXT
) STRICT;
CREATE INDEX answers_request ON answers (request_id, pos);
CREATE TABLE workers (worker TEXT PRIMARY KEY, about TEXT NOT NULL, beat REAL NOT NULL, lease REAL) STRICT, WITHOUT ROWID;
CREATE TABLE blobs (digest TEXT NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;
CREATE TABLE links (run_id TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (run_id, digest)) STRICT, WITHOUT ROWID;
CREATE INDEX links_digest ON links (digest);

-- name: has_schema
-- Whether this is a store already.
SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'

-- name: lock_schema
-- The transaction holds the only lock there is.
SELECT 1

-- name: lock_claims
-- As above.
SELECT 1

-- name: lock_blobs
-- As above.
SELECT 1

-- name: lock_run
-- How a run stands; nobody changes that before the end of the transaction.
SELECT state FROM runs WHERE run_id = ?1

-- name: size
-- Bytes of the pages in use; the file itself never shrinks.
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size

-- name: due
-- Runs to be taken: three small sets, each found by its own index. A blocked one is taken to be cancelled or tried again only.
SELECT run_id, epoch, seq, takeovers, worker FROM runs
WHERE pos IN (
    SELECT pos FROM runs WHERE state = 'running' AND (worker IS NULL
        OR NOT EXISTS (SELECT 1 FROM workers WHERE workers.worker = runs.worker AND workers.beat > ?3 - COALESCE(workers.lease, ?2)))
    UNION SELECT pos FROM runs WHERE state = 'suspended' AND due IS NOT NULL AND due <= ?3
    UNION SELECT runs.pos FROM mail CROSS JOIN runs ON runs.run_id = mail.run_id
    WHERE runs.state = 'suspended' OR (runs.state = 'blocked' AND mail.kind IN ('cancel', 'resume'))
) AND definition IN (EACH(?1)) AND run_id = COALESCE(?5, run_id)
ORDER BY pos LIMIT ?4
