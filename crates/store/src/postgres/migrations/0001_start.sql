-- Text is compared by its bytes wherever it is a key, whatever the database's language.
CREATE TABLE owners (
  id TEXT COLLATE "C" PRIMARY KEY,
  kind TEXT NOT NULL,
  pid BIGINT NOT NULL
);

CREATE TABLE tasks (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of creation; the cursor of lists
  id TEXT COLLATE "C" NOT NULL UNIQUE,
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
  budget_nanos BIGINT NOT NULL,
  branch TEXT,
  commit_id TEXT,
  evidence TEXT,
  input_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens BIGINT NOT NULL DEFAULT 0,
  cache_write_tokens BIGINT NOT NULL DEFAULT 0,
  reasoning_tokens BIGINT NOT NULL DEFAULT 0,
  cost_nanos BIGINT NOT NULL DEFAULT 0,
  requested_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  finished_at TEXT
);
CREATE INDEX tasks_by_status ON tasks (status, number);

CREATE TABLE sessions (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the key of its events: small, so that the journal is
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  task_id TEXT COLLATE "C" NOT NULL REFERENCES tasks (id),
  branch TEXT NOT NULL,
  last_seq BIGINT NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
);
CREATE INDEX sessions_by_task ON sessions (task_id);

CREATE TABLE turns (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
  ordinal BIGINT NOT NULL,
  author TEXT NOT NULL,
  prompt TEXT NOT NULL,
  status TEXT NOT NULL,
  rank BIGINT NOT NULL,               -- the smallest goes first
  owner TEXT COLLATE "C",
  fence BIGINT NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
);
CREATE INDEX turns_by_session ON turns (session_id);
CREATE INDEX turns_ready ON turns (rank, number) WHERE status = 'ready';
CREATE INDEX turns_by_owner ON turns (owner) WHERE owner IS NOT NULL;

CREATE TABLE attempts (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns (id),
  agent TEXT NOT NULL,
  command TEXT NOT NULL,
  exit_code BIGINT,
  stderr_tail TEXT NOT NULL DEFAULT '',
  journaled BIGINT NOT NULL DEFAULT 0, -- offset in the runner's spool up to which everything is in the journal
  started_at TEXT NOT NULL,
  finished_at TEXT
);
CREATE INDEX attempts_by_turn ON attempts (turn_id);

CREATE TABLE events (
  session BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  at TEXT NOT NULL,
  body TEXT NOT NULL,                  -- {"type": …, "data": …}
  PRIMARY KEY (session, seq)
);

CREATE TABLE sandboxes (
  id TEXT COLLATE "C" PRIMARY KEY,
  owner TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  purpose TEXT NOT NULL,
  provider TEXT NOT NULL
);
