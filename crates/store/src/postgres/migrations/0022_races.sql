-- Who has won: the first that was written down, for good.
CREATE TABLE races (id TEXT COLLATE "C" PRIMARY KEY, winner TEXT COLLATE "C" NOT NULL);
-- Until now whoever had completed had won.
INSERT INTO races SELECT settings::json #>> '{race,id}', id FROM tasks
  WHERE convoy LIKE 'race-%' AND status = 'completed' AND settings::json #>> '{race,id}' IS NOT NULL ORDER BY finished_at
  ON CONFLICT DO NOTHING;
INSERT INTO uncounted SELECT number FROM tasks
  WHERE convoy LIKE 'race-%' AND status IN ('completed', 'failed', 'cancelled');
-- A claimed turn that waits for others and takes no place under its caps.
ALTER TABLE turns ADD COLUMN aside BOOLEAN NOT NULL DEFAULT false;
