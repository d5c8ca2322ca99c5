-- Tasks that ended, or began anew, since the sums were last brought up to date.
CREATE TABLE uncounted (task INTEGER PRIMARY KEY) STRICT;
-- What each task adds to the sums, so that it can be taken out again.
CREATE TABLE counted (
  task INTEGER PRIMARY KEY,
  day TEXT NOT NULL,
  repository TEXT NOT NULL,
  agent TEXT NOT NULL,
  model TEXT NOT NULL,
  person TEXT NOT NULL,
  status TEXT NOT NULL,
  delivered INTEGER NOT NULL,
  cost_nanos INTEGER NOT NULL,
  time_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE stats (
  day TEXT NOT NULL,
  repository TEXT NOT NULL,
  agent TEXT NOT NULL,
  model TEXT NOT NULL,
  person TEXT NOT NULL,
  status TEXT NOT NULL,
  tasks INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  cost_nanos INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  PRIMARY KEY (day, repository, agent, model, person, status)
) STRICT, WITHOUT ROWID;
INSERT INTO uncounted SELECT number FROM tasks WHERE status IN ('completed', 'failed', 'cancelled');
