-- How a task had ended before the follow-up that waits, as JSON: cancelling the follow-up brings it back.
ALTER TABLE tasks ADD COLUMN former TEXT;
