-- What is left of the rates that all servers share. After a crash of the database every rate is full again.
CREATE UNLOGGED TABLE rates (
  key TEXT COLLATE "C" PRIMARY KEY,
  drops DOUBLE PRECISION NOT NULL,
  at_ms BIGINT NOT NULL
);
