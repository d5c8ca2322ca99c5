-- Projects that were made over the API, and what was set there for those of harvest.toml.
CREATE TABLE projects (
  name TEXT COLLATE "C" PRIMARY KEY,
  repositories TEXT NOT NULL,          -- a JSON list
  settings TEXT NOT NULL,              -- a JSON object
  version BIGINT NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  updated_at TEXT COLLATE "C" NOT NULL
);
-- Who may do what in which project, also in those of harvest.toml.
CREATE TABLE members (
  project TEXT COLLATE "C" NOT NULL,
  "user" TEXT COLLATE "C" NOT NULL,
  role TEXT COLLATE "C" NOT NULL,
  since TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (project, "user")
);
