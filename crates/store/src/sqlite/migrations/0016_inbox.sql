-- What forges have told. Settled ones stay for a while without their payload: a delivery is acted on once.
CREATE TABLE deliveries (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  event TEXT NOT NULL,
  payload TEXT,
  received_at TEXT NOT NULL,
  due_ms INTEGER,                      -- NULL: settled
  tries INTEGER NOT NULL DEFAULT 0,
  outcome TEXT,
  settled_ms INTEGER
) STRICT;
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (settled_ms) WHERE settled_ms IS NOT NULL;

-- Which session an issue or a pull request belongs to.
CREATE TABLE links (
  number INTEGER PRIMARY KEY,
  url TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,                  -- issue or pull_request
  session_id TEXT NOT NULL,
  repository TEXT NOT NULL,
  opened_ms INTEGER NOT NULL,
  ended TEXT,                          -- merged or closed
  ended_ms INTEGER
) STRICT;
CREATE INDEX links_by_session ON links (session_id);
