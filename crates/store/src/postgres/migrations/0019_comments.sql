-- What people say about sessions, beside their journals.
CREATE TABLE comments (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  author TEXT NOT NULL,
  at TEXT COLLATE "C" NOT NULL,
  about TEXT NOT NULL,                 -- JSON: an event or a line
  text TEXT NOT NULL
);
CREATE INDEX comments_by_session ON comments (session_id, number);
