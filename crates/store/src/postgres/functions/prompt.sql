-- Sessions that go on. Called by someone who holds the lock alone.

-- The next prompt in line for a task that has ended, if there is one: the task is pending again, with tries of its own, and
-- the turn where it belongs. How the task had ended is kept beside it. False when nothing is in line.
CREATE FUNCTION harvest_go_on(of_task text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  before tasks%ROWTYPE;
  next record;
BEGIN
  SELECT * INTO before FROM tasks WHERE id = of_task;
  SELECT ordinal, turn INTO next FROM queued WHERE task = before.number ORDER BY ordinal LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE tasks SET status = harvest_after(status, CASE status WHEN 'cancelled' THEN 'retry' ELSE 'follow_up' END),
      reason = NULL, error = NULL, evidence = NULL, finished_at = NULL, tries = 0,
      former = json_build_object('status', status, 'reason', reason, 'error', error, 'evidence', evidence,
        'finished_at', finished_at, 'tries', tries)::text
    WHERE id = of_task;
  DELETE FROM endings WHERE status = before.status AND task = before.number;
  DELETE FROM queued WHERE task = before.number AND ordinal = next.ordinal;
  PERFORM harvest_admit(next.turn, of_task);
  RETURN true;
END $$;
