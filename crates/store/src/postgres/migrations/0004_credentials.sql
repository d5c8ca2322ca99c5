CREATE TABLE credentials (
  id TEXT COLLATE "C" PRIMARY KEY,
  provider TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,   -- user:NAME, team:NAME or project:NAME
  name TEXT COLLATE "C" NOT NULL,
  sealed TEXT NOT NULL,              -- only the vault can open it
  last4 TEXT NOT NULL,
  base_url TEXT,
  created_at TEXT NOT NULL,
  rotated_at TEXT,
  last_used_at TEXT,
  UNIQUE (provider, scope, name)
);
