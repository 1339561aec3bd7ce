-- Queries over SQLite 3.40, by name. A block ends where the next begins.

-- name: schema
-- Everything as of version 1, for a new file.
CREATE TABLE schema_version (version INTEGER NOT NULL) STRICT;
INSERT INTO schema_version VALUES (1);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, definition TEXT NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
    worker TEXT, parent TEXT, root TEXT NOT NULL, session TEXT, key TEXT UNIQUE, tags TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, due REAL, takeovers INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_by_state ON runs (state, due);
CREATE INDEX runs_by_age ON runs (created);
CREATE INDEX runs_by_root ON runs (root);
CREATE TABLE records (
    pos INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL,
    v INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL, UNIQUE (run_id, seq)
) STRICT;
CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX mail_by_run ON mail (run_id);
CREATE TABLE requests (
    request_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, op TEXT NOT NULL, kind TEXT NOT NULL, digest TEXT NOT NULL,
    body BLOB NOT NULL, expires REAL, state TEXT NOT NULL, opened REAL NOT NULL, answer BLOB, by TEXT, channel TEXT,
    answered REAL
) STRICT;
CREATE INDEX requests_by_state ON requests (state, opened);
CREATE INDEX requests_by_run ON requests (run_id);
CREATE TABLE answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL, verdict TEXT NOT NULL, answer BLOB NOT NULL,
    by TEXT NOT NULL, channel TEXT NOT NULL, digest TEXT, at REAL NOT NULL
) STRICT;
CREATE TABLE workers (worker TEXT PRIMARY KEY, beat REAL NOT NULL, about TEXT NOT NULL) STRICT;
CREATE TABLE blobs (digest TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE refs (run_id TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (run_id, digest)) STRICT, WITHOUT ROWID;

-- name: version
-- The schema's version; fails where there is none.
SELECT version FROM schema_version;

-- name: tables
-- How many tables there are: none in a new file.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%';

-- name: create_run
-- A run, unless its id or its key is taken.
INSERT INTO runs (run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated)
VALUES (:run_id, :definition, 'running', 1, 1, :worker, :parent, :root, :session, :key, :tags, :at, :at)
ON CONFLICT DO NOTHING;

-- name: run_of_key
-- The run that was there before.
SELECT run_id FROM runs WHERE run_id = :run_id OR key = :key;

-- name: add_record
-- One record.
INSERT INTO records (run_id, seq, type, v, at, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: advance
-- The fence: only the present holder appends, and only after the run's last record.
UPDATE runs SET seq = :last, updated = :now, takeovers = CASE WHEN :progress THEN 0 ELSE takeovers END
WHERE run_id = :run_id AND epoch = :epoch AND seq = :first - 1 AND worker IS NOT NULL;

-- name: set_state
-- How a run stands, and that nobody holds it.
UPDATE runs SET state = :state, due = :due, updated = :now, worker = NULL
WHERE run_id = :run_id AND epoch = :epoch AND worker IS NOT NULL;

-- name: let_go
-- A run that is still to be driven is nobody's.
UPDATE runs SET worker = NULL WHERE run_id = :run_id AND epoch = :epoch;

-- name: open_request
-- A request beside the record that opens it.
INSERT INTO requests (request_id, run_id, op, kind, digest, body, expires, state, opened)
VALUES (:request_id, :run_id, :op, :kind, :digest, :body, :expires, 'open', :opened)
ON CONFLICT DO NOTHING;

-- name: close_request
-- No answer is wanted any more.
UPDATE requests SET state = 'closed' WHERE request_id = ? AND state = 'open';

-- name: close_requests
-- A run that is over asks nothing.
UPDATE requests SET state = 'closed' WHERE run_id = :run_id AND state = 'open';

-- name: read_mail
-- A letter that a record has taken in.
DELETE FROM mail WHERE id = ?;

-- name: add_blob
-- Bytes, once.
INSERT INTO blobs (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: add_ref
-- Which run speaks of which bytes.
INSERT INTO refs (run_id, digest) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: rows
-- A run's records after one of them.
SELECT seq, type, v, at, body FROM records WHERE run_id = :run_id AND seq > :after ORDER BY seq;

-- name: entry
-- One run.
SELECT run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due, takeovers
FROM runs WHERE run_id = :run_id;

-- name: entries
-- Runs, the latest first.
SELECT run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due, takeovers
FROM runs
WHERE (:state IS NULL OR state = :state) AND (:definition IS NULL OR definition = :definition)
  AND (:parent IS NULL OR parent = :parent)
ORDER BY created DESC, run_id DESC LIMIT :limit;

-- name: enlist
-- A worker is alive.
INSERT INTO workers (worker, beat, about) VALUES (:worker, :now, :about)
ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat, about = excluded.about;

-- name: beat
-- It still is.
UPDATE workers SET beat = :now WHERE worker = :worker;

-- name: retire
-- It is no more.
DELETE FROM workers WHERE worker = :worker;

-- name: orphan
-- Its runs are for others.
UPDATE runs SET worker = NULL WHERE worker = :worker;

-- name: workers
-- Who is alive, and how long ago they said so.
SELECT worker, :now - beat, about FROM workers;

-- name: orphaned
-- Runs that are to be driven and that nobody alive holds.
SELECT run_id, epoch, seq, takeovers FROM runs
WHERE state = 'running' AND definition IN (SELECT value FROM json_each(:definitions))
  AND (worker IS NULL OR worker NOT IN (SELECT worker FROM workers WHERE beat > :now - :lease))
LIMIT :limit;

-- name: mailed
-- Parked runs for which something has come.
SELECT run_id, epoch, seq, takeovers FROM runs
WHERE run_id IN (SELECT DISTINCT run_id FROM mail) AND state = 'suspended'
  AND definition IN (SELECT value FROM json_each(:definitions))
LIMIT :limit;

-- name: overdue
-- Parked runs whose time has come.
SELECT run_id, epoch, seq, takeovers FROM runs
WHERE state = 'suspended' AND due <= :now AND definition IN (SELECT value FROM json_each(:definitions))
LIMIT :limit;

-- name: take
-- A run is somebody's, under the next epoch.
UPDATE runs SET worker = :worker, epoch = epoch + 1, seq = seq + 1, takeovers = takeovers + 1, state = 'running',
    due = NULL, updated = :now
WHERE run_id = :run_id AND epoch = :epoch;

-- name: post
-- A letter, for a run that is not over.
INSERT INTO mail (run_id, kind, at, body)
SELECT :run_id, :kind, :now, :body WHERE EXISTS (
    SELECT 1 FROM runs WHERE run_id = :run_id AND state IN ('running', 'suspended', 'blocked'));

-- name: letters
-- What has come for a run.
SELECT id, kind, at, body FROM mail WHERE run_id = :run_id ORDER BY id;

-- name: asked
-- One request.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, by, channel, answered
FROM requests WHERE request_id = :request_id;

-- name: requests
-- Requests, the oldest first; of a run, with the runs inside it.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, by, channel, answered
FROM requests
WHERE (:state IS NULL OR state = :state)
  AND (:run_id IS NULL OR run_id = :run_id OR run_id IN (SELECT run_id FROM runs WHERE root = :run_id))
ORDER BY opened, request_id LIMIT :limit;

-- name: accept
-- Compare-and-set: the first answer counts.
UPDATE requests SET state = 'answered', answer = :answer, by = :by, channel = :channel, answered = :now
WHERE request_id = :request_id AND state = 'open';

-- name: expire
-- The time for answers is over.
UPDATE requests SET state = 'expired' WHERE request_id = :request_id AND state = 'open';

-- name: keep_answer
-- The audit, refused ones too.
INSERT INTO answers (request_id, verdict, answer, by, channel, digest, at)
VALUES (:request_id, :verdict, :answer, :by, :channel, :digest, :now);

-- name: blob
-- The bytes under a digest.
SELECT data FROM blobs WHERE digest = :digest;

-- name: removable
-- Whether a run is over.
SELECT run_id FROM runs
WHERE (run_id = :run_id OR root = :run_id) AND :run_id IN (
    SELECT run_id FROM runs WHERE state IN ('done', 'incomplete', 'failed', 'cancelled', 'blocked'));

-- name: remove
-- All of a run.
DELETE FROM records WHERE run_id = :run_id;
DELETE FROM mail WHERE run_id = :run_id;
DELETE FROM answers WHERE request_id IN (SELECT request_id FROM requests WHERE run_id = :run_id);
DELETE FROM requests WHERE run_id = :run_id;
DELETE FROM refs WHERE run_id = :run_id;
DELETE FROM runs WHERE run_id = :run_id;

-- name: sweep
-- Bytes that no run speaks of.
DELETE FROM blobs WHERE digest NOT IN (SELECT digest FROM refs);
