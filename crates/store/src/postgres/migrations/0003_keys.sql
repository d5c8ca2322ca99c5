-- Turns know the rows of their session and task by number, and fewer indexes change when one is claimed and finished.
ALTER TABLE turns ADD COLUMN task BIGINT NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN session BIGINT NOT NULL DEFAULT 0;
UPDATE turns SET task = (SELECT number FROM tasks WHERE tasks.id = turns.task_id),
                 session = (SELECT number FROM sessions WHERE sessions.id = turns.session_id);
DROP INDEX turns_by_owner;
DROP INDEX turns_leased;
CREATE INDEX turns_claimed ON turns (owner) WHERE status = 'claimed';

-- An index on the status of tasks would make every move of a task an entry in all of its indexes. Ended ones are found by
-- their turns, which change places at that moment anyway; so a task's row stays where it is as long as its page has room.
ALTER TABLE turns ADD COLUMN ended TEXT COLLATE "C";  -- how its task ended
UPDATE turns SET ended = (SELECT status FROM tasks WHERE tasks.number = turns.task) WHERE status = 'done';
CREATE INDEX turns_ended ON turns (ended, task) WHERE status = 'done';
DROP INDEX tasks_by_status;
ALTER TABLE tasks SET (fillfactor = 60);
