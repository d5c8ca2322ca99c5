-- Which token a task was asked for with.
CREATE TABLE asked (
  token TEXT NOT NULL,
  day TEXT NOT NULL,
  task INTEGER NOT NULL,
  PRIMARY KEY (token, day, task)
) STRICT, WITHOUT ROWID;
-- Whether the agent is killed rather than asked to end.
ALTER TABLE stops ADD COLUMN at_once INTEGER NOT NULL DEFAULT 0;
