-- Where a turn stands in the queue has tables of its own, narrow ones: a claim takes a row out of one and puts it into
-- another, and what the turn itself keeps changes in no index, so that its new version stays on its page, beside the old.
CREATE TABLE ready (
  rank BIGINT NOT NULL,
  turn BIGINT NOT NULL,
  repository TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (rank, turn)
);
CREATE INDEX ready_by_repository ON ready (repository, rank, turn);

CREATE TABLE leases (
  owner TEXT COLLATE "C" NOT NULL,
  turn BIGINT NOT NULL,
  until_ms BIGINT,                   -- when someone else may take it; NULL: never by itself
  PRIMARY KEY (owner, turn)
);

-- Tasks that have ended, by how.
CREATE TABLE endings (
  status TEXT COLLATE "C" NOT NULL,
  task BIGINT NOT NULL,
  PRIMARY KEY (status, task)
);

INSERT INTO ready SELECT rank, number, repository FROM turns WHERE status = 'ready';
INSERT INTO leases SELECT owner, number, lease_until_ms FROM turns WHERE status = 'claimed';
INSERT INTO endings SELECT DISTINCT ended, task FROM turns WHERE status = 'done' AND ended IS NOT NULL;

DROP INDEX turns_ready, turns_ready_by_repository, turns_waiting, turns_claimed, turns_held, turns_ended;
ALTER TABLE turns DROP COLUMN ended, DROP COLUMN lease_until_ms;
CREATE INDEX turns_waiting ON turns (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX tasks_blocked ON tasks (number) WHERE blockers > 0;

-- Neighbours are claimed together and finished together. There is room on a page for a second version of each.
ALTER TABLE tasks SET (fillfactor = 45);
ALTER TABLE sessions SET (fillfactor = 45);
ALTER TABLE turns SET (fillfactor = 45);
ALTER TABLE ready SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
