-- The person that a turn acts for where that is not its author, and the token that its last instruction came with.
ALTER TABLE turns ADD COLUMN acts_for TEXT;
ALTER TABLE turns ADD COLUMN token TEXT COLLATE "C";
-- The day of tasks that someone without a role began. The day of the upgrade is counted anew.
ALTER TABLE tasks ADD COLUMN stranger_day TEXT COLLATE "C";
CREATE INDEX tasks_of_strangers ON tasks (stranger_day, repository, requested_by) WHERE stranger_day IS NOT NULL;
-- People whose token is being exchanged for a new one, by whom, and until when nobody else may.
CREATE TABLE refreshes (
  person TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until_ms BIGINT NOT NULL
);
