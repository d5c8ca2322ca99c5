-- Projects that were made over the API, and what was set there for those of harvest.toml.
CREATE TABLE projects (
  name TEXT PRIMARY KEY,
  repositories TEXT NOT NULL,          -- a JSON list
  settings TEXT NOT NULL,              -- a JSON object
  version INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;
-- Who may do what in which project, also in those of harvest.toml.
CREATE TABLE members (
  project TEXT NOT NULL,
  user TEXT NOT NULL,
  role TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY (project, user)
) STRICT, WITHOUT ROWID;
