ALTER TABLE tasks ADD COLUMN priority TEXT NOT NULL DEFAULT 'normal';
ALTER TABLE tasks ADD COLUMN on_failed_dependency TEXT NOT NULL DEFAULT 'hold';
ALTER TABLE tasks ADD COLUMN convoy TEXT COLLATE "C";
ALTER TABLE tasks ADD COLUMN retries_left BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN source_url TEXT;
ALTER TABLE tasks ADD COLUMN extra TEXT;
ALTER TABLE tasks ADD COLUMN idempotency_key TEXT COLLATE "C";
ALTER TABLE tasks ADD COLUMN request_digest TEXT;
ALTER TABLE tasks ADD COLUMN blockers BIGINT NOT NULL DEFAULT 0;  -- unfinished tasks that it waits for
CREATE UNIQUE INDEX tasks_by_key ON tasks (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_by_convoy ON tasks (convoy, number) WHERE convoy IS NOT NULL;
CREATE INDEX tasks_by_repository ON tasks (repository, number);

CREATE TABLE dependencies (
  task_id TEXT COLLATE "C" NOT NULL,
  after_id TEXT COLLATE "C" NOT NULL,
  satisfied BOOLEAN NOT NULL DEFAULT false,
  PRIMARY KEY (task_id, after_id)
);
CREATE INDEX dependencies_by_after ON dependencies (after_id, task_id);

ALTER TABLE turns ADD COLUMN task_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN repository TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN due_ms BIGINT;          -- when a waiting turn is tried again
ALTER TABLE turns ADD COLUMN lease_until_ms BIGINT;  -- when a claimed turn may be taken by someone else
UPDATE turns SET task_id = (SELECT task_id FROM sessions WHERE sessions.id = turns.session_id);
UPDATE turns SET repository = (SELECT repository FROM tasks WHERE tasks.id = turns.task_id);
CREATE INDEX turns_by_task ON turns (task_id);
CREATE INDEX turns_ready_by_repository ON turns (repository, rank, number) WHERE status = 'ready';
CREATE INDEX turns_waiting ON turns (due_ms) WHERE status = 'waiting';
CREATE INDEX turns_leased ON turns (lease_until_ms) WHERE status = 'claimed';
-- Ready, waiting and claimed ones are counted in the indexes that hold nothing else; fewer indexes make cheaper claims.
CREATE INDEX turns_held ON turns (status) WHERE status IN ('blocked', 'parked');
DROP INDEX turns_by_session;                          -- found by their task

-- A cap lets at most `size` turns that carry its name be ready or claimed at a time; the rest are parked.
CREATE TABLE caps (
  name TEXT COLLATE "C" PRIMARY KEY,
  size BIGINT NOT NULL,
  used BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE turn_caps (
  turn BIGINT NOT NULL,
  cap TEXT COLLATE "C" NOT NULL,
  rank BIGINT NOT NULL,
  parked BOOLEAN NOT NULL DEFAULT false,
  PRIMARY KEY (turn, cap)
);
CREATE INDEX turn_caps_parked ON turn_caps (cap, rank, turn) WHERE parked;
CREATE INDEX turn_caps_by_cap ON turn_caps (cap);

CREATE TABLE queue (
  one BIGINT PRIMARY KEY CHECK (one = 1),
  paused BOOLEAN NOT NULL DEFAULT false,
  agents BIGINT              -- how many agents each worker runs; NULL: what it was started with
);
INSERT INTO queue (one) VALUES (1);

CREATE TABLE schedules (
  id TEXT COLLATE "C" PRIMARY KEY,
  cron TEXT NOT NULL,
  time_zone TEXT NOT NULL,
  missed TEXT NOT NULL,       -- what happens to runs that were missed: skip or run_once
  request TEXT NOT NULL,
  next_ms BIGINT,
  last_ms BIGINT,
  created_at TEXT NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_ms) WHERE next_ms IS NOT NULL;

CREATE TABLE templates (
  name TEXT COLLATE "C" PRIMARY KEY,
  prompt TEXT NOT NULL,
  options TEXT NOT NULL,
  created_at TEXT NOT NULL
);

-- Rows of the queue change often and are looked at from one end: what is dead must go soon.
ALTER TABLE turns SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE sessions SET (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 80);
