-- Which token a task was asked for with.
CREATE TABLE asked (
  token TEXT COLLATE "C" NOT NULL,
  day TEXT COLLATE "C" NOT NULL,
  task BIGINT NOT NULL,
  PRIMARY KEY (token, day, task)
);
-- Whether the agent is killed rather than asked to end.
ALTER TABLE stops ADD COLUMN at_once BOOLEAN NOT NULL DEFAULT false;
