-- Turns that wait for a person.

-- Gives a turn back until a person has decided. Returns the number of the last event; the status that forbids it; or neither
-- when the lease is void.
-- Gives a turn back until someone says how it goes on. Returns nothing when the lease does not hold, or the status that
-- forbids the move.
CREATE FUNCTION harvest_hold(turn_number bigint, of_fence bigint, by_move text, at_time text, bodies text[],
  OUT last bigint, OUT refused text) LANGUAGE plpgsql AS $$
DECLARE
  t turns%ROWTYPE;
  before text;
  wanted smallint;
BEGIN
  PERFORM harvest_lock(true);
  SELECT * INTO t FROM turns WHERE number = turn_number AND status = 'claimed' AND fence = of_fence;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT status INTO before FROM tasks WHERE number = t.task;
  IF harvest_after(before, by_move) IS NULL THEN
    refused := before;
    RETURN;
  END IF;
  UPDATE tasks SET status = harvest_after(status, by_move) WHERE number = t.task;
  PERFORM harvest_put(turn_number, 'held');
  PERFORM harvest_give_back(turn_number);
  last := harvest_journal(t.session_id, at_time, bodies);
  DELETE FROM stops WHERE turn = turn_number RETURNING weight INTO wanted;
  IF wanted > 0 THEN
    PERFORM harvest_cancel_one(t.task_id, at_time, 'stopped by a user');
    PERFORM harvest_cancel_followers(ARRAY[t.task_id], at_time);
  END IF;
  -- Whoever waits for the queue to run empty wants to know.
  PERFORM harvest_wake();
END $$;

-- Gives a turn back that could not be worked on, until it is due. Returns as the one above.
CREATE FUNCTION harvest_put_off(turn_number bigint, of_fence bigint, until_ms bigint, at_time text, bodies text[],
  OUT last bigint, OUT refused text) LANGUAGE plpgsql AS $$
DECLARE
  t turns%ROWTYPE;
  before text;
BEGIN
  PERFORM harvest_lock(true);
  SELECT * INTO t FROM turns WHERE number = turn_number AND status = 'claimed' AND fence = of_fence;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT status INTO before FROM tasks WHERE number = t.task;
  IF harvest_after(before, 'lose_lease') IS NULL THEN
    refused := before;
    RETURN;
  END IF;
  UPDATE tasks SET status = harvest_after(status, 'lose_lease') WHERE number = t.task;
  PERFORM harvest_put(turn_number, 'waiting');
  UPDATE turns SET due_ms = until_ms WHERE number = turn_number;
  PERFORM harvest_give_back(turn_number);
  last := harvest_journal(t.session_id, at_time, bodies);
  PERFORM harvest_wake();
END $$;

-- An interrupted turn is in the queue again. Returns the status that forbids it, '' when there is no such task.
CREATE FUNCTION harvest_resume(of_task text, at_time text, by_author text, with_prompt text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  before text;
  t turns%ROWTYPE;
BEGIN
  PERFORM harvest_lock(true);
  SELECT status INTO before FROM tasks WHERE id = of_task;
  IF NOT FOUND THEN
    RETURN '';
  END IF;
  IF harvest_after(before, 'resume') IS NULL THEN
    RETURN before;
  END IF;
  SELECT * INTO t FROM turns WHERE task_id = of_task AND status = 'held';
  PERFORM harvest_journal(t.session_id, at_time, ARRAY[json_strip_nulls(json_build_object('type', 'session.resumed', 'data',
    json_build_object('turn_id', t.id, 'author', by_author, 'prompt', with_prompt)))::text]);
  -- To continue is no new try.
  UPDATE tasks SET status = harvest_after(status, 'resume'), tries = 0 WHERE id = of_task;
  PERFORM harvest_admit(t.number, of_task);
  RETURN NULL;
END $$;

-- A person has decided: the turn is in the queue again, or the task is cancelled, and why. Returns the status that forbids
-- it, '' when there is no such task.
CREATE FUNCTION harvest_decide(of_task text, at_time text, body text, cancelled_for text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  before text;
  t turns%ROWTYPE;
BEGIN
  PERFORM harvest_lock(true);
  SELECT status INTO before FROM tasks WHERE id = of_task;
  IF NOT FOUND THEN
    RETURN '';
  END IF;
  IF harvest_after(before, 'approve') IS NULL THEN
    RETURN before;
  END IF;
  SELECT * INTO t FROM turns WHERE task_id = of_task AND status = 'held';
  PERFORM harvest_journal(t.session_id, at_time, ARRAY[body]);
  IF cancelled_for IS NOT NULL THEN
    PERFORM harvest_cancel_one(of_task, at_time, cancelled_for);
    PERFORM harvest_cancel_followers(ARRAY[of_task], at_time);
  ELSE
    UPDATE tasks SET status = harvest_after(status, 'approve'), tries = 0 WHERE id = of_task;
    PERFORM harvest_admit(t.number, of_task);
  END IF;
  RETURN NULL;
END $$;
