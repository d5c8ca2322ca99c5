-- Steps of claimed turns, many in one transaction. Each is checked before it writes anything, so that one which is refused
-- leaves nothing behind and disturbs no other.

-- Whether those of the turns that end let others go or take others along.
CREATE FUNCTION harvest_touches_others(of_turns text[], dues bigint[], overs text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  ending text[] := ARRAY(SELECT t.turn FROM unnest(of_turns, dues, overs) AS t (turn, due, over)
                         WHERE t.due IS NOT NULL OR t.over IS NOT NULL);
BEGIN
  RETURN cardinality(ending) > 0 AND ((EXISTS (SELECT 1 FROM caps)
          AND EXISTS (SELECT 1 FROM turns JOIN turn_caps ON turn_caps.turn = turns.number
                      JOIN caps ON caps.name = turn_caps.cap
                      WHERE turns.id = ANY(ending)))
      OR EXISTS (SELECT 1 FROM turns JOIN dependencies ON dependencies.after_id = turns.task_id
                 WHERE turns.id = ANY(ending) AND NOT dependencies.satisfied));
END $$;

-- The status after a step: its move, if any, and with a next try in sight a failure and a retry. NULL when not allowed.
CREATE FUNCTION harvest_stepped(status text, move text, due_ms bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN due_ms IS NOT NULL AND move IS NOT NULL THEN harvest_after(harvest_after(harvest_after(status, move), 'fail'), 'retry')
    WHEN due_ms IS NOT NULL THEN harvest_after(harvest_after(status, 'fail'), 'retry')
    WHEN move IS NOT NULL THEN harvest_after(status, move)
    ELSE status
  END
$$;

-- Steps, each about another task, given column by column and numbered from 1; `over` is the status of a task that ends. The
-- events come with the number of their step and their place in it, and usage as six sums for each step that has some.
-- Returns the number of the last event of each step that was written, and the status of the task of each that was refused
-- for it; what is missing was refused for its lease. A single row with step 0 says that nothing was done because this has to
-- be called with `alone`.
CREATE FUNCTION harvest_append(
  alone boolean, of_turns text[], of_fences bigint[], times text[], counts int[], moves text[], dues bigint[], overs text[],
  reasons text[], errors text[], branches text[], commits text[], evidences text[], attempts jsonb[],
  usage_steps int[], usages bigint[], event_steps int[], event_places int[], event_bodies text[])
RETURNS TABLE (step int, last bigint, refused text) LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  held_steps int[];
  held_turns bigint[];
  held_tasks text[];
  held_sessions text[];
  done int[] := '{}';
  r record;
BEGIN
  PERFORM harvest_lock(alone);
  IF NOT alone AND harvest_touches_others(of_turns, dues, overs) THEN
    RETURN QUERY SELECT 0, NULL::bigint, NULL::text;
    RETURN;
  END IF;
  SELECT array_agg(h.step), array_agg(h.number), array_agg(h.task_id), array_agg(h.session_id)
    INTO held_steps, held_turns, held_tasks, held_sessions
    FROM (SELECT l.step::int, t.number, t.task_id, t.session_id
          FROM unnest(of_turns, of_fences) WITH ORDINALITY AS l (turn, fence, step) JOIN turns AS t ON t.id = l.turn
          WHERE t.status = 'claimed' AND t.fence = l.fence
          ORDER BY t.number FOR UPDATE OF t) AS h;
  FOR r IN
    WITH held AS MATERIALIZED (
      SELECT * FROM unnest(held_steps, held_turns, held_tasks, held_sessions) AS h (step, turn, task, session)
    ), moved AS (
      UPDATE tasks SET status = harvest_stepped(status, moves[h.step], dues[h.step]),
          reason = CASE WHEN overs[h.step] IS NULL THEN reason ELSE reasons[h.step] END,
          error = CASE WHEN overs[h.step] IS NULL THEN error ELSE errors[h.step] END,
          branch = CASE WHEN overs[h.step] IS NULL THEN branch ELSE branches[h.step] END,
          commit_id = CASE WHEN overs[h.step] IS NULL THEN commit_id ELSE commits[h.step] END,
          evidence = CASE WHEN overs[h.step] IS NULL THEN evidence ELSE evidences[h.step] END,
          finished_at = CASE WHEN overs[h.step] IS NULL THEN finished_at ELSE times[h.step] END,
          retries_left = CASE WHEN dues[h.step] IS NULL THEN retries_left ELSE greatest(retries_left - 1, 0) END
        FROM held AS h
        WHERE tasks.id = h.task AND (moves[h.step] IS NOT NULL OR dues[h.step] IS NOT NULL OR overs[h.step] IS NOT NULL)
          AND harvest_stepped(status, moves[h.step], dues[h.step]) IS NOT NULL
        RETURNING h.step, h.turn
    ), ended AS (
      UPDATE turns SET status = CASE WHEN dues[m.step] IS NULL THEN 'done' ELSE 'waiting' END, owner = NULL,
          lease_until_ms = NULL, due_ms = dues[m.step]
        FROM moved AS m
        WHERE turns.number = m.turn AND (dues[m.step] IS NOT NULL OR overs[m.step] IS NOT NULL)
    ), grown AS (
      UPDATE sessions SET last_seq = last_seq + counts[h.step]
        FROM held AS h
        WHERE sessions.id = h.session
          AND ((moves[h.step] IS NULL AND dues[h.step] IS NULL AND overs[h.step] IS NULL)
               OR h.step IN (SELECT m.step FROM moved AS m))
        RETURNING h.step, sessions.number AS journal, last_seq
    ), written AS (
      INSERT INTO events (session, seq, at, body)
        SELECT g.journal, g.last_seq - counts[g.step] + e.place, times[g.step], e.body
        FROM unnest(event_steps, event_places, event_bodies) AS e (step, place, body) JOIN grown AS g ON g.step = e.step
    )
    SELECT h.step, h.task, g.last_seq FROM held AS h LEFT JOIN grown AS g ON g.step = h.step
  LOOP
    step := r.step;
    last := r.last_seq;
    refused := CASE WHEN last IS NULL THEN (SELECT status FROM tasks WHERE id = r.task) END;
    IF last IS NOT NULL THEN
      done := done || step;
    END IF;
    RETURN NEXT;
  END LOOP;
  -- What only some steps have.
  IF cardinality(usage_steps) > 0 THEN
    UPDATE tasks SET input_tokens = input_tokens + usages[u.at + 1], output_tokens = output_tokens + usages[u.at + 2],
        cache_read_tokens = cache_read_tokens + usages[u.at + 3], cache_write_tokens = cache_write_tokens + usages[u.at + 4],
        reasoning_tokens = reasoning_tokens + usages[u.at + 5], cost_nanos = cost_nanos + usages[u.at + 6]
      FROM (SELECT s.step, ((s.place - 1) * 6)::int AS at FROM unnest(usage_steps) WITH ORDINALITY AS s (step, place)) AS u
      JOIN unnest(held_steps, held_tasks) AS h (step, task) ON h.step = u.step
      WHERE tasks.id = h.task AND u.step = ANY(done);
  END IF;
  IF cardinality(attempts) > 0 THEN
    PERFORM harvest_attempt(a.attempt, times[(a.attempt ->> 'step')::int])
      FROM unnest(attempts) AS a (attempt) WHERE (a.attempt ->> 'step')::int = ANY(done);
  END IF;
  IF alone THEN
    PERFORM harvest_ended(h.turn, h.task, overs[h.step], times[h.step])
      FROM unnest(held_steps, held_turns, held_tasks) AS h (step, turn, task)
      WHERE h.step = ANY(done) AND (dues[h.step] IS NOT NULL OR overs[h.step] IS NOT NULL);
  END IF;
END $$;

-- A turn has left its owner's hands: places get free, others may go or go with it.
CREATE FUNCTION harvest_ended(turn_number bigint, of_task text, over text, at_time text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_give_back(turn_number);
  IF over = 'completed' THEN
    PERFORM harvest_unblock(of_task);
  ELSIF over IS NOT NULL THEN
    PERFORM harvest_cancel_followers(ARRAY[of_task], at_time);
  END IF;
END $$;

-- What a step says about an attempt.
CREATE FUNCTION harvest_attempt(attempt jsonb, at_time text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  CASE attempt ->> 'what'
    WHEN 'started' THEN
      INSERT INTO attempts (id, turn_id, agent, command, started_at)
        VALUES (attempt ->> 'id', attempt ->> 'turn', attempt ->> 'agent', attempt ->> 'command', attempt ->> 'started_at');
    WHEN 'journaled' THEN
      UPDATE attempts SET journaled = (attempt ->> 'offset')::bigint WHERE id = attempt ->> 'id';
    WHEN 'finished' THEN
      UPDATE attempts SET exit_code = (attempt ->> 'exit_code')::bigint, stderr_tail = attempt ->> 'stderr_tail',
          finished_at = at_time
        WHERE id = attempt ->> 'id';
  END CASE;
END $$;
