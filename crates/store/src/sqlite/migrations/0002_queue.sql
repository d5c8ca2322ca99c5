ALTER TABLE tasks ADD COLUMN priority TEXT NOT NULL DEFAULT 'normal';
ALTER TABLE tasks ADD COLUMN on_failed_dependency TEXT NOT NULL DEFAULT 'hold';
ALTER TABLE tasks ADD COLUMN convoy TEXT;
ALTER TABLE tasks ADD COLUMN retries_left INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN source_url TEXT;
ALTER TABLE tasks ADD COLUMN extra TEXT;
ALTER TABLE tasks ADD COLUMN idempotency_key TEXT;
ALTER TABLE tasks ADD COLUMN request_digest TEXT;
ALTER TABLE tasks ADD COLUMN blockers INTEGER NOT NULL DEFAULT 0;  -- unfinished tasks that it waits for
CREATE UNIQUE INDEX tasks_by_key ON tasks (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_by_convoy ON tasks (convoy, number) WHERE convoy IS NOT NULL;
CREATE INDEX tasks_by_repository ON tasks (repository, number);

CREATE TABLE dependencies (
  task_id TEXT NOT NULL,
  after_id TEXT NOT NULL,
  satisfied INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (task_id, after_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_after ON dependencies (after_id, task_id);

ALTER TABLE turns ADD COLUMN task_id TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN repository TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN due_ms INTEGER;          -- when a waiting turn is tried again
ALTER TABLE turns ADD COLUMN lease_until_ms INTEGER;  -- when a claimed turn may be taken by someone else
UPDATE turns SET task_id = (SELECT task_id FROM sessions WHERE sessions.id = turns.session_id);
UPDATE turns SET repository = (SELECT repository FROM tasks WHERE tasks.id = turns.task_id);
CREATE INDEX turns_by_task ON turns (task_id);
CREATE INDEX turns_ready_by_repository ON turns (repository, rank, number) WHERE status = 'ready';
CREATE INDEX turns_waiting ON turns (due_ms) WHERE status = 'waiting';
CREATE INDEX turns_leased ON turns (lease_until_ms) WHERE status = 'claimed';
CREATE INDEX turns_unfinished ON turns (status) WHERE status <> 'done';

-- A cap lets at most `size` turns that carry its name be ready or claimed at a time; the rest are parked.
CREATE TABLE caps (
  name TEXT PRIMARY KEY,
  size INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE turn_caps (
  turn INTEGER NOT NULL,
  cap TEXT NOT NULL,
  rank INTEGER NOT NULL,
  parked INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (turn, cap)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_caps_parked ON turn_caps (cap, rank, turn) WHERE parked = 1;
CREATE INDEX turn_caps_by_cap ON turn_caps (cap);

CREATE TABLE queue (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  paused INTEGER NOT NULL DEFAULT 0,
  agents INTEGER              -- how many agents each worker runs; NULL: what it was started with
) STRICT;
INSERT INTO queue (only) VALUES (1);

CREATE TABLE schedules (
  id TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  time_zone TEXT NOT NULL,
  missed TEXT NOT NULL,       -- what happens to runs that were missed: skip or run_once
  request TEXT NOT NULL,
  next_ms INTEGER,
  last_ms INTEGER,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX schedules_due ON schedules (next_ms) WHERE next_ms IS NOT NULL;

CREATE TABLE templates (
  name TEXT PRIMARY KEY,
  prompt TEXT NOT NULL,
  options TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
