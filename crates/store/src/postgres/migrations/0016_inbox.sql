-- What forges have told. Settled ones stay for a while without their payload: a delivery is acted on once.
CREATE TABLE deliveries (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  event TEXT COLLATE "C" NOT NULL,
  payload TEXT,
  received_at TEXT COLLATE "C" NOT NULL,
  due_ms BIGINT,                      -- NULL: settled
  tries BIGINT NOT NULL DEFAULT 0,
  outcome TEXT,
  settled_ms BIGINT
);
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (settled_ms) WHERE settled_ms IS NOT NULL;

-- Which session an issue or a pull request belongs to.
CREATE TABLE links (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  url TEXT COLLATE "C" NOT NULL UNIQUE,
  kind TEXT COLLATE "C" NOT NULL,                  -- issue or pull_request
  session_id TEXT COLLATE "C" NOT NULL,
  repository TEXT NOT NULL,
  opened_ms BIGINT NOT NULL,
  ended TEXT COLLATE "C",                          -- merged or closed
  ended_ms BIGINT
);
CREATE INDEX links_by_session ON links (session_id);
