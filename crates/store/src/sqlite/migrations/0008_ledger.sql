-- What is set aside for calls under way.
CREATE TABLE reservations (
  call TEXT PRIMARY KEY,
  task INTEGER NOT NULL,
  owner TEXT NOT NULL,
  accounts TEXT NOT NULL,              -- a JSON list of user:NAME and project:NAME
  day TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  amount_nanos INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX reservations_by_task ON reservations (task);

-- What accounts have spent, by day, and by the process that spent it: each knows exactly what it spent itself, and has to
-- ask only for the others.
CREATE TABLE spending (
  day TEXT NOT NULL,
  account TEXT NOT NULL,
  owner TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  cost_nanos INTEGER NOT NULL,
  PRIMARY KEY (day, account, owner)
) STRICT, WITHOUT ROWID;
