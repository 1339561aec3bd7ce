-- Blocks that read the same in every database. Each has a name and says what it is for.
-- ?1 is the first value of a call; EACH(?1) gives the texts of a JSON array.

-- name: version
-- Which schema the tables have.
SELECT version FROM schema_version

-- name: set_version
-- After the schema was made or migrated.
INSERT INTO schema_version (version, at) VALUES (?1, ?2)

-- name: unset_version
-- Before a newer one is set.
DELETE FROM schema_version

-- name: create
-- A run, unless its id or its key is there already.
INSERT INTO runs (run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due,
    takeovers, forked_from, forked_at)
VALUES (?1, ?2, 'running', ?11, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, NULL, 0, ?12, ?13)
ON CONFLICT DO NOTHING

-- name: adopt
-- A run as another store gave it, unless its id or its key is there already.
INSERT INTO runs (run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due,
    takeovers)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0)
ON CONFLICT DO NOTHING

-- name: record
-- One record.
INSERT INTO records (run, seq, type, v, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: position
-- The number of a run.
SELECT pos FROM runs WHERE run_id = ?1

-- name: advance
-- The fence of an append with records: moves a run on for its holder only, and only from the record before.
UPDATE runs SET seq = ?1, updated = ?2, takeovers = 0
WHERE pos = ?3 AND run_id = ?4 AND epoch = ?5 AND seq = ?6 AND worker IS NOT NULL

-- name: hold
-- The fence of an append without records.
UPDATE runs SET epoch = epoch WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL

-- name: stand
-- A run that is over or parked, and let go of.
UPDATE runs SET state = ?1, due = ?2, worker = NULL WHERE run_id = ?3

-- name: let_go
-- A run that is still to be driven, by whoever claims it.
UPDATE runs SET worker = NULL WHERE run_id = ?1 AND epoch = ?2

-- name: let_go_all
-- Every run of a worker that stops.
UPDATE runs SET worker = NULL WHERE worker = ?1

-- name: take
-- A run found due, unless somebody was faster.
UPDATE runs SET epoch = epoch + 1, worker = ?1, state = 'running', seq = ?2, updated = ?3, due = NULL,
    takeovers = takeovers + 1
WHERE run_id = ?4 AND epoch = ?5 AND seq = ?6 AND state IN ('running', 'suspended', 'blocked')

-- name: records
-- A run's own records in order.
SELECT seq, type, v, at, body FROM records WHERE run = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq

-- name: line
-- The number of a run, and whose records it shares up to which.
SELECT pos, forked_from, forked_at FROM runs WHERE run_id = ?1

-- name: forks
-- Runs that share records of these.
SELECT forked_from, run_id FROM runs WHERE forked_from IN (EACH(?1)) ORDER BY pos

-- name: entry
-- One run.
SELECT run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due, takeovers,
    forked_from, forked_at
FROM runs WHERE run_id = ?1

-- name: entry_of_key_or_id
-- The run that stands in the way of a new one.
SELECT run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due, takeovers,
    forked_from, forked_at
FROM runs WHERE key = ?1 OR run_id = ?2 ORDER BY CASE WHEN key = ?1 THEN 0 ELSE 1 END LIMIT 1

-- name: entries
-- Runs, the latest first.
SELECT run_id, definition, state, seq, epoch, worker, parent, root, session, key, tags, created, updated, due, takeovers,
    forked_from, forked_at
FROM runs
WHERE (CAST(?1 AS TEXT) IS NULL OR state = ?1) AND (CAST(?2 AS TEXT) IS NULL OR definition = ?2)
    AND (CAST(?3 AS TEXT) IS NULL OR parent = ?3)
ORDER BY pos DESC LIMIT ?4

-- name: enlist
-- A worker begins to be alive.
INSERT INTO workers (worker, about, beat, lease) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (worker) DO UPDATE SET about = excluded.about, beat = excluded.beat, lease = excluded.lease

-- name: forget_workers
-- Those not heard of since long ago that hold nothing.
DELETE FROM workers
WHERE abs(beat) < ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.worker = workers.worker)

-- name: enlist_lapsed
-- Who held a run in another store.
INSERT INTO workers (worker, about, beat) VALUES (?1, ?2, -1) ON CONFLICT DO NOTHING

-- name: beat
-- A worker goes on being alive; one that was found lapsed does not, until it is enlisted anew.
UPDATE workers SET beat = ?1 WHERE worker = ?2 AND beat >= 0

-- name: lapse
-- A worker was not heard of for a lease: what it said of itself stays, for others to prove it dead, and when it was
-- last heard of, below zero.
UPDATE workers SET beat = -beat WHERE worker = ?1 AND beat > 0

-- name: retire
-- A worker is alive no more.
DELETE FROM workers WHERE worker = ?1

-- name: workers
-- Who is enlisted.
SELECT worker, about, beat FROM workers ORDER BY worker

-- name: post
-- A letter for a run.
INSERT INTO mail (run_id, kind, at, body) VALUES (?1, ?2, ?3, ?4)

-- name: letters
-- What a run has not read.
SELECT id, kind, at, body FROM mail WHERE run_id = ?1 ORDER BY id

-- name: letters_of_worker
-- Letters of a kind for the runs that a worker holds.
SELECT mail.run_id, mail.id, mail.kind, mail.at, mail.body FROM runs JOIN mail ON mail.run_id = runs.run_id
WHERE runs.worker = ?1 AND mail.kind = ?2 ORDER BY mail.id

-- name: read
-- Letters that records have taken in.
DELETE FROM mail WHERE run_id = ?1 AND CAST(id AS TEXT) IN (EACH(?2))

-- name: open
-- A request.
INSERT INTO requests (request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel,
    answered)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)

-- name: close
-- Requests whose call was settled otherwise, or that nobody answered in time.
UPDATE requests SET state = CASE WHEN expires <= ?2 THEN 'expired' ELSE 'closed' END
WHERE request_id IN (EACH(?1)) AND state = 'open'

-- name: close_all
-- What a run that is over had still open.
UPDATE requests SET state = 'closed' WHERE run_id = ?1 AND state = 'open'

-- name: expire
-- A request that was found past its time.
UPDATE requests SET state = 'expired' WHERE request_id = ?1 AND state = 'open'

-- name: answer
-- The one answer that a request takes.
UPDATE requests SET state = 'answered', answer = ?1, answered_by = ?2, channel = ?3, answered = ?4
WHERE request_id = ?5 AND state = 'open'

-- name: audit
-- An answer as it was given, and what came of it.
INSERT INTO answers (request_id, at, verdict, answer, given_by, channel, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: answers
-- All that was answered to a request.
SELECT at, verdict, answer, given_by, channel, digest FROM answers WHERE request_id = ?1 ORDER BY pos

-- name: answers_of_run
-- All that was answered to what a run asked.
SELECT answers.request_id, at, verdict, answers.answer, given_by, answers.channel, answers.digest
FROM answers JOIN requests ON requests.request_id = answers.request_id
WHERE requests.run_id = ?1 ORDER BY answers.pos

-- name: asked
-- One request.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel, answered
FROM requests WHERE request_id = ?1

-- name: open_requests
-- Open requests of all runs, the oldest first: found by their own index among however many that were answered.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel, answered
FROM requests WHERE state = 'open' ORDER BY pos LIMIT ?1

-- name: requests
-- Requests of all runs, the oldest first.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel, answered
FROM requests WHERE (CAST(?1 AS TEXT) IS NULL OR state = ?1) ORDER BY pos LIMIT ?2

-- name: requests_of_run
-- Requests of a run and of the runs inside it, the oldest first.
WITH RECURSIVE inside (run_id) AS (
    SELECT CAST(?1 AS TEXT) UNION SELECT runs.run_id FROM inside JOIN runs ON runs.parent = inside.run_id
)
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel, answered
FROM requests
WHERE run_id IN (SELECT run_id FROM inside) AND (CAST(?2 AS TEXT) IS NULL OR state = ?2)
ORDER BY pos LIMIT ?3

-- name: requests_of_run_alone
-- Requests of one run, the oldest first.
SELECT request_id, run_id, op, kind, digest, body, expires, state, opened, answer, answered_by, channel, answered
FROM requests WHERE run_id = ?1 ORDER BY pos

-- name: keep
-- Bytes under their digest, once.
INSERT INTO blobs (digest, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: link
-- A run refers to bytes.
INSERT INTO links (run_id, digest) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: blob
-- Bytes by their digest.
SELECT data FROM blobs WHERE digest = ?1

-- name: removable
-- Those runs with all that is inside them, as far as nothing in or around them is still to go on and none has a fork.
WITH RECURSIVE inside (top, run_id) AS (
    SELECT run_id, run_id FROM runs WHERE run_id IN (EACH(?1))
    UNION SELECT inside.top, runs.run_id FROM inside JOIN runs ON runs.parent = inside.run_id
), around (top, run_id) AS (
    SELECT run_id, parent FROM runs WHERE run_id IN (EACH(?1))
    UNION SELECT around.top, runs.parent FROM around JOIN runs ON runs.run_id = around.run_id
)
SELECT DISTINCT run_id FROM inside
WHERE top NOT IN (
    SELECT inside.top FROM inside JOIN runs ON runs.run_id = inside.run_id
    WHERE runs.state NOT IN ('done', 'incomplete', 'failed', 'cancelled')
    UNION SELECT around.top FROM around JOIN runs ON runs.run_id = around.run_id
    WHERE runs.state NOT IN ('done', 'incomplete', 'failed', 'cancelled')
    UNION SELECT inside.top FROM inside JOIN runs ON runs.forked_from = inside.run_id
)

-- name: over
-- Outermost runs that are over, those that ended first in front.
SELECT run_id FROM runs
WHERE state IN ('done', 'incomplete', 'failed', 'cancelled') AND parent IS NULL
    AND (CAST(?1 AS DOUBLE PRECISION) IS NULL OR updated < ?1)
ORDER BY updated, pos

-- name: weigh
-- What runs need by themselves.
SELECT run_id, (SELECT COALESCE(SUM(LENGTH(body)), 0) FROM records WHERE records.run = runs.pos) + (
    SELECT COALESCE(SUM(LENGTH(data)), 0) FROM links JOIN blobs ON blobs.digest = links.digest
    WHERE links.run_id = runs.run_id
)
FROM runs WHERE run_id IN (EACH(?1))

-- name: remove_old_blobs
-- Bytes that only runs refer to which are over for long, and that no fork shares.
DELETE FROM blobs
WHERE digest IN (
    SELECT links.digest FROM links JOIN runs ON runs.run_id = links.run_id
    WHERE runs.state IN ('done', 'incomplete', 'failed', 'cancelled') AND runs.updated < ?1
) AND NOT EXISTS (
    SELECT 1 FROM links JOIN runs ON runs.run_id = links.run_id
    WHERE links.digest = blobs.digest
        AND (runs.state NOT IN ('done', 'incomplete', 'failed', 'cancelled') OR runs.updated >= ?1
            OR EXISTS (SELECT 1 FROM runs AS fork WHERE fork.forked_from = runs.run_id))
)

-- name: linked
-- Which bytes runs refer to.
SELECT DISTINCT digest FROM links WHERE run_id IN (EACH(?1))

-- name: remove_records
-- With its run.
DELETE FROM records WHERE run IN (SELECT pos FROM runs WHERE run_id IN (EACH(?1)))

-- name: remove_mail
-- With its run.
DELETE FROM mail WHERE run_id IN (EACH(?1))

-- name: remove_answers
-- With its request.
DELETE FROM answers WHERE request_id IN (SELECT request_id FROM requests WHERE run_id IN (EACH(?1)))

-- name: remove_requests
-- With its run.
DELETE FROM requests WHERE run_id IN (EACH(?1))

-- name: remove_links
-- With its run.
DELETE FROM links WHERE run_id IN (EACH(?1))

-- name: remove_blobs
-- Those of these bytes that no run refers to any more.
DELETE FROM blobs
WHERE digest IN (EACH(?1)) AND NOT EXISTS (SELECT 1 FROM links WHERE links.digest = blobs.digest)

-- name: remove_runs
-- Last of all.
DELETE FROM runs WHERE run_id IN (EACH(?1))
