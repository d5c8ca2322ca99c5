-- Who may use the API. Secrets are kept as digests.
CREATE TABLE tokens (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  kind TEXT COLLATE "C" NOT NULL,      -- api, login or link
  name TEXT NOT NULL,
  "user" TEXT NOT NULL,
  role TEXT COLLATE "C" NOT NULL,
  projects TEXT[],                     -- NULL: all
  digest TEXT COLLATE "C" NOT NULL UNIQUE,
  created_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C",
  revoked_at TEXT COLLATE "C",
  last_used_at TEXT COLLATE "C"
);

-- What requests with an idempotency key were answered.
CREATE TABLE answers (
  key TEXT COLLATE "C" PRIMARY KEY,
  digest TEXT COLLATE "C" NOT NULL,
  begun_ms BIGINT NOT NULL,
  status BIGINT,                       -- NULL: it is being carried out
  body TEXT
);
CREATE INDEX answers_by_time ON answers (begun_ms);

CREATE TABLE audit (
  number BIGINT PRIMARY KEY,
  at TEXT COLLATE "C" NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  project TEXT,
  detail TEXT NOT NULL,
  previous TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL
);
-- Not called harvest_…: those functions are made anew with every upgrade, and a trigger holds on to its own.
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is only added to';
END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
