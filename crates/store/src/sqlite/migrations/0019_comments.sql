-- What people say about sessions, beside their journals.
CREATE TABLE comments (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  author TEXT NOT NULL,
  at TEXT NOT NULL,
  about TEXT NOT NULL,                 -- JSON: an event or a line
  text TEXT NOT NULL
) STRICT;
CREATE INDEX comments_by_session ON comments (session_id, number);
