-- How tasks end without or after work, and how they begin again. Called by someone who holds the lock alone.

-- The turn is over; its places go to others.
CREATE FUNCTION harvest_end_turn(turn_number bigint, was text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_put(turn_number, 'done');
  UPDATE turn_caps SET parked = false WHERE turn = turn_number AND parked;
  IF was IN ('ready', 'claimed') THEN
    PERFORM harvest_give_back(turn_number);
  END IF;
END $$;

-- The newest commit of what the unfinished turn of a session has done; NULL if nothing arrived yet. The type is in the first
-- characters of every event: the many others are not read as JSON.
CREATE FUNCTION harvest_newest_work(of_session bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  e record;
BEGIN
  FOR e IN SELECT body::json ->> 'type' AS kind, body::json -> 'data' AS data FROM events
      WHERE session = of_session AND substr(body, 1, 40)
        ~ '"(checkpoint\.created|session\.interrupted|stage\.finished|delivery\.proposed|task\.finished)"'
      ORDER BY seq DESC LOOP
    IF e.kind IN ('checkpoint.created', 'session.interrupted', 'delivery.proposed') THEN
      RETURN e.data ->> 'commit';
    ELSIF e.kind = 'stage.finished' AND e.data ->> 'stage' = 'execute' THEN
      RETURN e.data -> 'result' ->> 'commit';
    ELSIF e.kind = 'task.finished' THEN
      -- The turns before it have ended.
      RETURN NULL;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Cancels one task that no one works on and returns its outcome, or NULL when someone does or it has ended. Work that nobody
-- delivered is the commit of the outcome; `words.rs` has the same words.
CREATE FUNCTION harvest_cancel_one(of_task text, at_time text, why text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  t turns%ROWTYPE;
  work text;
  outcome text;
BEGIN
  SELECT * INTO t FROM turns WHERE task_id = of_task AND status IN ('ready', 'blocked', 'waiting', 'parked', 'held');
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  SELECT harvest_newest_work(t.session) INTO work FROM tasks WHERE id = of_task AND kind <> 'pr_review';
  SELECT nullif(work, coalesce(commit_id, settings::json #>> '{origin,commit}', base)) INTO work FROM tasks WHERE id = of_task;
  IF work IS NOT NULL THEN
    why := CASE why WHEN 'cancelled before it started' THEN 'cancelled before it continued' ELSE why END
      || '; its work so far was not delivered';
  END IF;
  UPDATE tasks SET status = harvest_after(status, 'cancel'), reason = 'cancelled', error = why,
      commit_id = coalesce(work, commit_id, base), evidence = NULL, finished_at = at_time
    WHERE id = of_task
    RETURNING json_build_object(
      'task_id', id, 'session_id', t.session_id, 'status', status, 'reason', reason, 'error', error, 'branch', branch,
      'commit', commit_id, 'base', base, 'evidence', NULL,
      'usage', json_build_object(
        'input_tokens', input_tokens, 'output_tokens', output_tokens, 'cache_read_tokens', cache_read_tokens,
        'cache_write_tokens', cache_write_tokens, 'reasoning_tokens', reasoning_tokens),
      'cost_usd', cost_nanos::double precision / 1e9)::text
    INTO outcome;
  INSERT INTO endings (status, task) VALUES ('cancelled', t.task);
  UPDATE turns SET ended = 'cancelled' WHERE number = t.number;
  PERFORM harvest_end_turn(t.number, t.status);
  PERFORM harvest_journal(t.session_id, at_time, ARRAY[
    json_build_object('type', 'turn.finished', 'data', json_build_object('turn_id', t.id, 'reason', 'cancelled'))::text,
    json_build_object('type', 'task.finished', 'data', outcome::json)::text]);
  RETURN outcome;
END $$;

-- Tasks have not completed: those that are to go with them go, one ring after the other.
CREATE FUNCTION harvest_cancel_followers(failed text[], at_time text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  ring text[] := failed;
  follower text;
BEGIN
  WHILE cardinality(ring) > 0 LOOP
    SELECT coalesce(array_agg(DISTINCT tasks.id), '{}') INTO ring
      FROM dependencies JOIN tasks ON tasks.id = dependencies.task_id
      WHERE dependencies.after_id = ANY(ring) AND NOT dependencies.satisfied AND tasks.status = 'pending'
        AND tasks.on_failed_dependency = 'cancel';
    FOREACH follower IN ARRAY ring LOOP
      PERFORM harvest_cancel_one(follower, at_time, 'a task that it waits for did not complete');
    END LOOP;
  END LOOP;
  -- Whoever waits for the queue to run empty wants to know.
  PERFORM harvest_wake();
END $$;

-- The result of a task that has ended.
CREATE FUNCTION harvest_outcome(of_task text, of_session text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT json_build_object(
      'task_id', id, 'session_id', of_session, 'status', status, 'reason', reason, 'error', error, 'branch', branch,
      'commit', coalesce(commit_id, base), 'base', base, 'evidence', evidence::json,
      'usage', json_build_object(
        'input_tokens', input_tokens, 'output_tokens', output_tokens, 'cache_read_tokens', cache_read_tokens,
        'cache_write_tokens', cache_write_tokens, 'reasoning_tokens', reasoning_tokens),
      'cost_usd', cost_nanos::double precision / 1e9)::text
    FROM tasks WHERE id = of_task
$$;

-- Withdraws a follow-up or retry that nobody has begun, and the follow-ups in line behind it: the task has the result again
-- that it had before, which is returned. NULL when there is none. A turn that is not tried again stays as it was.
CREATE FUNCTION harvest_withdraw(of_task text, at_time text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  t turns%ROWTYPE;
  was json;
  gone text[];
  outcome text;
BEGIN
  SELECT former::json INTO was FROM tasks WHERE id = of_task;
  IF was IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT * INTO t FROM turns WHERE task_id = of_task AND status IN ('ready', 'blocked', 'parked')
    AND fence = coalesce((was ->> 'fence')::bigint, 0);
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(json_build_object('type', 'turn.finished',
      'data', json_build_object('turn_id', id, 'reason', 'cancelled'))::text ORDER BY ordinal) INTO gone
    FROM turns WHERE task = t.task AND (number = t.number AND was ->> 'fence' IS NULL OR status = 'queued');
  UPDATE tasks SET status = was ->> 'status', reason = was ->> 'reason', error = was ->> 'error',
      evidence = was ->> 'evidence', finished_at = was ->> 'finished_at', tries = (was ->> 'tries')::bigint, former = NULL
    WHERE id = of_task;
  INSERT INTO endings (status, task) VALUES (was ->> 'status', t.task);
  -- Turns after these are not to work with an agent or a model that was asked for in one of them.
  UPDATE turns SET ended = 'withdrawn', agent = NULL, model = NULL
    WHERE task = t.task AND (number = t.number AND was ->> 'fence' IS NULL OR status = 'queued');
  UPDATE turns SET status = 'done' WHERE task = t.task AND status = 'queued';
  DELETE FROM queued WHERE task = t.task;
  PERFORM harvest_end_turn(t.number, t.status);
  outcome := harvest_outcome(of_task, t.session_id);
  PERFORM harvest_journal(t.session_id, at_time,
    coalesce(gone, '{}') || json_build_object('type', 'task.finished', 'data', outcome::json)::text);
  RETURN outcome;
END $$;

-- Cancels what a task waits to do, and those tasks that go with it. Returns the result that the task has then.
CREATE FUNCTION harvest_cancel(of_task text, at_time text, why text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  outcome text;
BEGIN
  PERFORM harvest_lock(true);
  outcome := harvest_withdraw(of_task, at_time);
  IF outcome::json ->> 'status' = 'completed' THEN
    PERFORM harvest_unblock(of_task);
    PERFORM harvest_wake();
    RETURN outcome;
  END IF;
  outcome := coalesce(outcome, harvest_cancel_one(of_task, at_time, why));
  IF outcome IS NOT NULL THEN
    PERFORM harvest_cancel_followers(ARRAY[of_task], at_time);
  END IF;
  RETURN outcome;
END $$;

-- Queues a failed or cancelled task once more. Returns the status that forbids it, '' when there is no such task.
CREATE FUNCTION harvest_retry(of_task text, at_time text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  before tasks%ROWTYPE;
  t turns%ROWTYPE;
BEGIN
  PERFORM harvest_lock(true);
  SELECT * INTO before FROM tasks WHERE id = of_task;
  IF NOT FOUND THEN
    RETURN '';
  END IF;
  IF harvest_after(before.status, 'retry') IS NULL THEN
    RETURN before.status;
  END IF;
  -- A follow-up that was withdrawn is not what is tried again.
  SELECT * INTO t FROM turns WHERE task_id = of_task AND status = 'done' ORDER BY fence > 0 DESC, ordinal DESC LIMIT 1;
  UPDATE tasks SET status = harvest_after(status, 'retry'), reason = NULL, error = NULL, evidence = NULL, finished_at = NULL,
      former = json_build_object('status', status, 'reason', reason, 'error', error, 'evidence', evidence,
        'finished_at', finished_at, 'tries', tries, 'fence', t.fence)::text
    WHERE id = of_task;
  DELETE FROM endings WHERE status = before.status AND task = before.number;
  -- What was asked of it before it ended is over with that.
  DELETE FROM stops WHERE turn = t.number;
  PERFORM harvest_admit(t.number, of_task);
  PERFORM harvest_journal(t.session_id, at_time, ARRAY[json_build_object('type', 'task.retried', 'data', json_build_object(
    'reason', coalesce(before.reason, 'cancelled'), 'error', coalesce(before.error, ''), 'tries', before.tries,
    'delay_ms', 0))::text]);
  RETURN NULL;
END $$;
