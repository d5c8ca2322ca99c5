-- The person whose quota a turn counts for: whoever it acts for, or who asked for its task if no person asked for the turn.
ALTER TABLE turns ADD COLUMN counts_for TEXT;
UPDATE turns SET counts_for = CASE
  WHEN coalesce(acts_for, author) = 'github:checks' OR coalesce(acts_for, author) LIKE '%[bot]'
  THEN (SELECT requested_by FROM tasks WHERE tasks.id = turns.task_id)
  ELSE coalesce(acts_for, author) END
WHERE status <> 'done';
CREATE INDEX turns_under_way ON turns (counts_for, task) WHERE status <> 'done';
-- Turns know the token that they were asked for with.
DROP TABLE asked;
