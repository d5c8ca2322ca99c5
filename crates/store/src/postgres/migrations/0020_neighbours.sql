-- When someone last pushed to a repository, as its forge tells.
ALTER TABLE repositories ADD COLUMN pushed_ms BIGINT;

-- Sessions whose work changes the same places, as a merge of the two would have it. `one` is the lesser id.
CREATE TABLE session_overlaps (
  one TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  other TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  paths TEXT NOT NULL,                 -- JSON
  found_ms BIGINT NOT NULL,
  PRIMARY KEY (one, other)
);
CREATE INDEX session_overlaps_by_other ON session_overlaps (other);
