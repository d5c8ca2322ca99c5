-- Who has won: the first that was written down, for good.
CREATE TABLE races (id TEXT PRIMARY KEY, winner TEXT NOT NULL) STRICT, WITHOUT ROWID;
-- Until now whoever had completed had won.
INSERT OR IGNORE INTO races SELECT json_extract(settings, '$.race.id'), id FROM tasks
  WHERE convoy LIKE 'race-%' AND status = 'completed' AND json_extract(settings, '$.race.id') IS NOT NULL ORDER BY finished_at;
INSERT OR IGNORE INTO uncounted SELECT number FROM tasks
  WHERE convoy LIKE 'race-%' AND status IN ('completed', 'failed', 'cancelled');
-- A claimed turn that waits for others and takes no place under its caps.
ALTER TABLE turns ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;
