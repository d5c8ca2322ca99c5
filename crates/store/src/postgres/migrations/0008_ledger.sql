-- What is set aside for calls under way.
CREATE TABLE reservations (
  call TEXT COLLATE "C" PRIMARY KEY,
  task BIGINT NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  accounts TEXT[] NOT NULL,            -- user:NAME and project:NAME
  day TEXT COLLATE "C" NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  amount_nanos BIGINT NOT NULL
);
CREATE INDEX reservations_by_task ON reservations (task);

-- What accounts have spent, by day, and by the process that spent it: each knows exactly what it spent itself, and has to
-- ask only for the others.
CREATE TABLE spending (
  day TEXT COLLATE "C" NOT NULL,
  account TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  calls BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  cost_nanos BIGINT NOT NULL,
  PRIMARY KEY (day, account, owner)
);
