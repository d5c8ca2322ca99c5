-- Steps of claimed turns, many in one transaction. Each is checked before it writes anything, so that one which is refused
-- leaves nothing behind and disturbs no other.

-- Steps, each about another task, given column by column and numbered from 1. `from` lists the statuses in which a task may
-- make its move and `into` is the one it has then; `over` is the status of a task that ends. No row is locked to look at a
-- fence: whoever raises one holds the lock alone, and this one shares it. The events come with the number of their step and
-- their place in it, and usage as six sums for each step that has some.
-- Returns the numbers of the steps whose lease holds, with the number of the last event of each that was written, or the
-- status of the task that refused it. Without `alone`, NULL says that nothing was done: one that ends lets others go or takes
-- others along, and this has to be called with it.
CREATE FUNCTION harvest_append(
  alone boolean, of_turns bigint[], of_tasks bigint[], of_sessions bigint[], of_fences bigint[], times text[], counts int[],
  froms text[], intos text[], dues bigint[], overs text[],
  reasons text[], errors text[], branches text[], commits text[], evidences text[], attempts text[],
  usage_steps int[], usages bigint[], event_steps int[], event_places int[], event_bodies text[],
  OUT steps int[], OUT lasts bigint[], OUT refusals text[])
LANGUAGE plpgsql AS $$
DECLARE
  done int[];
BEGIN
  IF alone THEN
    PERFORM harvest_lock(true);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(7233182601);
    IF EXISTS (
      SELECT 1 FROM unnest(of_turns, dues, overs) AS t (turn, due, over) JOIN turns ON turns.number = t.turn
        WHERE (t.due IS NOT NULL OR t.over IS NOT NULL)
          AND (EXISTS (SELECT 1 FROM turn_caps JOIN caps ON caps.name = turn_caps.cap WHERE turn_caps.turn = t.turn)
            OR EXISTS (SELECT 1 FROM dependencies WHERE after_id = turns.task_id AND NOT satisfied)
            OR EXISTS (SELECT 1 FROM queued WHERE queued.task = turns.task)
            OR turns.aside))
    THEN
      RETURN;
    END IF;
  END IF;
  WITH held AS MATERIALIZED (
    SELECT l.*, t.owner FROM unnest(of_turns, of_tasks, of_sessions, of_fences, times, counts, froms, intos, dues, overs)
        WITH ORDINALITY AS l (turn, task, session, fence, at, count, allowed, into_status, due, over, step)
      JOIN turns AS t ON t.number = l.turn
      WHERE t.status = 'claimed' AND t.fence = l.fence
  ), moved AS (
    UPDATE tasks SET status = coalesce(h.into_status, status), retries_left = greatest(retries_left - (h.due IS NOT NULL)::int, 0),
        reason = CASE WHEN h.over IS NULL THEN reason ELSE reasons[h.step] END,
        error = CASE WHEN h.over IS NULL THEN error ELSE errors[h.step] END,
        branch = CASE WHEN h.over IS NULL THEN branch ELSE branches[h.step] END,
        commit_id = CASE WHEN h.over IS NULL THEN commit_id ELSE commits[h.step] END,
        evidence = CASE WHEN h.over IS NULL THEN evidence ELSE evidences[h.step] END,
        finished_at = CASE WHEN h.over IS NULL THEN finished_at ELSE h.at END
      FROM held AS h
      WHERE tasks.number = h.task AND (h.allowed IS NOT NULL OR h.over IS NOT NULL)
        AND (h.allowed IS NULL OR status = ANY(string_to_array(h.allowed, ',')))
      RETURNING h.step
  ), ended AS (
    UPDATE turns SET status = CASE WHEN h.due IS NULL THEN 'done' ELSE 'waiting' END, ended = h.over, owner = NULL,
        due_ms = h.due
      FROM held AS h JOIN moved AS m ON m.step = h.step
      WHERE turns.number = h.turn AND (h.due IS NOT NULL OR h.over IS NOT NULL)
      RETURNING h.owner, h.turn, h.task, h.over
  ), freed AS (
    DELETE FROM leases USING ended AS e WHERE leases.owner = e.owner AND leases.turn = e.turn
  ), noted AS (
    INSERT INTO endings (status, task) SELECT e.over, e.task FROM ended AS e WHERE e.over IS NOT NULL
  ), grown AS (
    UPDATE sessions SET last_seq = last_seq + h.count
      FROM held AS h LEFT JOIN moved AS m ON m.step = h.step
      WHERE sessions.number = h.session AND ((h.allowed IS NULL AND h.over IS NULL) OR m.step IS NOT NULL)
      RETURNING h.step, h.session, h.at, last_seq - h.count AS before, last_seq
  ), written AS (
    INSERT INTO events (session, seq, at, body)
      SELECT g.session, g.before + e.place, g.at, e.body
      FROM unnest(event_steps, event_places, event_bodies) AS e (step, place, body) JOIN grown AS g ON g.step = e.step
  )
  SELECT coalesce(array_agg(h.step::int), '{}'), coalesce(array_agg(g.last_seq), '{}'),
      coalesce(array_agg(CASE WHEN g.last_seq IS NULL THEN (SELECT status FROM tasks WHERE number = h.task) END), '{}')
    INTO steps, lasts, refusals
    FROM held AS h LEFT JOIN grown AS g ON g.step = h.step;
  -- What only some steps have.
  IF alone OR cardinality(usage_steps) > 0 OR cardinality(attempts) > 0 THEN
    done := ARRAY(SELECT w.step FROM unnest(steps, lasts) AS w (step, last) WHERE w.last IS NOT NULL);
    IF cardinality(usage_steps) > 0 THEN
      UPDATE tasks SET input_tokens = input_tokens + usages[u.at + 1], output_tokens = output_tokens + usages[u.at + 2],
          cache_read_tokens = cache_read_tokens + usages[u.at + 3], cache_write_tokens = cache_write_tokens + usages[u.at + 4],
          reasoning_tokens = reasoning_tokens + usages[u.at + 5], cost_nanos = cost_nanos + usages[u.at + 6]
        FROM (SELECT s.step, ((s.place - 1) * 6)::int AS at FROM unnest(usage_steps) WITH ORDINALITY AS s (step, place)) AS u
        WHERE tasks.number = of_tasks[u.step] AND u.step = ANY(done);
    END IF;
    IF cardinality(attempts) > 0 THEN
      PERFORM harvest_attempt(a.attempt, times[(a.attempt ->> 'step')::int])
        FROM (SELECT text::jsonb FROM unnest(attempts) AS text) AS a (attempt) WHERE (a.attempt ->> 'step')::int = ANY(done);
    END IF;
    IF alone THEN
      PERFORM harvest_ended(t.number, t.task_id, overs[h.step], times[h.step])
        FROM unnest(done) AS h (step) JOIN turns AS t ON t.number = of_turns[h.step]
        WHERE dues[h.step] IS NOT NULL OR overs[h.step] IS NOT NULL;
    END IF;
  END IF;
END $$;

-- A turn has left its owner's hands: places get free, others may go or go with it.
CREATE FUNCTION harvest_ended(turn_number bigint, of_task text, over text, at_time text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_give_back(turn_number);
  IF over IN ('completed', 'failed') THEN
    IF harvest_go_on(of_task) THEN
      RETURN;
    END IF;
  END IF;
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
