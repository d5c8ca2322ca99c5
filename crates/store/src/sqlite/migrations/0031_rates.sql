-- What is left of the rates that all servers share.
CREATE TABLE rates (
  key TEXT NOT NULL PRIMARY KEY,
  drops REAL NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
