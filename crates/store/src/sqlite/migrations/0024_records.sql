-- What a request with an idempotency key has made, written with it: `schedule:ID`.
ALTER TABLE answers ADD COLUMN made TEXT;
-- Answers that show a token were kept once.
DELETE FROM answers WHERE body LIKE '%"token":"hv\_%' ESCAPE '\';

-- The person that a schedule runs as, as JSON, and why its last run made no task.
ALTER TABLE schedules ADD COLUMN owner TEXT;
ALTER TABLE schedules ADD COLUMN problem TEXT;

-- Quotas count the tasks of a person.
CREATE INDEX tasks_by_person ON tasks (requested_by, number);

-- What counts beside the tasks that are there: those that were forgotten, and ends that were taken back by more work. With them
-- the sums never fall.
CREATE TABLE totals (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO totals VALUES ('finished', 0), ('cost_nanos', 0);
CREATE TRIGGER tasks_are_forgotten AFTER DELETE ON tasks BEGIN
  UPDATE totals SET value = value + (OLD.status IN ('completed', 'failed', 'cancelled')) WHERE name = 'finished';
  UPDATE totals SET value = value + OLD.cost_nanos WHERE name = 'cost_nanos';
END;
CREATE TRIGGER tasks_begin_again AFTER UPDATE OF status ON tasks
  WHEN OLD.status IN ('completed', 'failed', 'cancelled') AND NEW.status NOT IN ('completed', 'failed', 'cancelled') BEGIN
  UPDATE totals SET value = value + 1 WHERE name = 'finished';
END;
