-- Who may use the API. Secrets are kept as digests.
CREATE TABLE tokens (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,                  -- api, login or link
  name TEXT NOT NULL,
  user TEXT NOT NULL,
  role TEXT NOT NULL,
  projects TEXT,                       -- a JSON list; NULL: all
  digest TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  revoked_at TEXT,
  last_used_at TEXT
) STRICT;

-- What requests with an idempotency key were answered.
CREATE TABLE answers (
  key TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  begun_ms INTEGER NOT NULL,
  status INTEGER,                      -- NULL: it is being carried out
  body TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_time ON answers (begun_ms);

CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  project TEXT,
  detail TEXT NOT NULL,
  previous TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
