-- Repositories that snapshots are prepared of. The snapshots themselves belong to a data directory, not to the database.
CREATE TABLE repositories (
  name TEXT COLLATE "C" PRIMARY KEY,
  source TEXT NOT NULL,
  settings TEXT NOT NULL,
  created_at TEXT NOT NULL
);
