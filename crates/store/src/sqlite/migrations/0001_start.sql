CREATE TABLE owners (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  pid INTEGER NOT NULL
) STRICT;

CREATE TABLE tasks (
  number INTEGER PRIMARY KEY,          -- order of creation; the cursor of lists
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT,
  error TEXT,
  prompt TEXT NOT NULL,
  agent TEXT NOT NULL,
  model TEXT,
  repository TEXT NOT NULL,
  base TEXT NOT NULL,
  settings TEXT NOT NULL,
  budget_nanos INTEGER NOT NULL,
  branch TEXT,
  commit_id TEXT,
  evidence TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost_nanos INTEGER NOT NULL DEFAULT 0,
  requested_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;
CREATE INDEX tasks_by_status ON tasks (status, number);

CREATE TABLE sessions (
  number INTEGER PRIMARY KEY,          -- the key of its events: small, so that the journal is
  id TEXT NOT NULL UNIQUE,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  branch TEXT NOT NULL,
  last_seq INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_by_task ON sessions (task_id);

CREATE TABLE turns (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions (id),
  ordinal INTEGER NOT NULL,
  author TEXT NOT NULL,
  prompt TEXT NOT NULL,
  status TEXT NOT NULL,
  rank INTEGER NOT NULL,               -- the smallest goes first
  owner TEXT,
  fence INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX turns_by_session ON turns (session_id);
CREATE INDEX turns_ready ON turns (rank, number) WHERE status = 'ready';
CREATE INDEX turns_by_owner ON turns (owner) WHERE owner IS NOT NULL;

CREATE TABLE attempts (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  turn_id TEXT NOT NULL REFERENCES turns (id),
  agent TEXT NOT NULL,
  command TEXT NOT NULL,
  exit_code INTEGER,
  stderr_tail TEXT NOT NULL DEFAULT '',
  journaled INTEGER NOT NULL DEFAULT 0, -- offset in the runner's spool up to which everything is in the journal
  started_at TEXT NOT NULL,
  finished_at TEXT
) STRICT;
CREATE INDEX attempts_by_turn ON attempts (turn_id);

CREATE TABLE events (
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at TEXT NOT NULL,
  body TEXT NOT NULL,                  -- {"type": …, "data": …}
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
  id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  session_id TEXT NOT NULL,
  purpose TEXT NOT NULL,
  provider TEXT NOT NULL
) STRICT;
