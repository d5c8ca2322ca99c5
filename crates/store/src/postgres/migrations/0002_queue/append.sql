-- Steps of claimed turns, many in one transaction. Each is checked before it writes anything, so that one which is refused
-- leaves nothing behind and disturbs no other.

-- Whether ending these turns lets others go or takes others along.
CREATE FUNCTION harvest_touches_others(ending text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN (EXISTS (SELECT 1 FROM caps)
          AND EXISTS (SELECT 1 FROM turns JOIN turn_caps ON turn_caps.turn = turns.number
                      JOIN caps ON caps.name = turn_caps.cap
                      WHERE turns.id = ANY(ending)))
      OR EXISTS (SELECT 1 FROM turns JOIN dependencies ON dependencies.after_id = turns.task_id
                 WHERE turns.id = ANY(ending) AND NOT dependencies.satisfied);
END $$;

-- The status after the moves, one after the other; or 'status move' (with a space) at the first that is not allowed.
CREATE FUNCTION harvest_moved(status text, moves text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  step_move text;
  next_status text := status;
BEGIN
  FOREACH step_move IN ARRAY moves LOOP
    IF harvest_after(next_status, step_move) IS NULL THEN
      RETURN next_status || ' ' || step_move;
    END IF;
    next_status := harvest_after(next_status, step_move);
  END LOOP;
  RETURN next_status;
END $$;

-- A step with the turn it is about.
CREATE TYPE harvest_step AS (
  step int, at text, events int, usage bigint[], attempt jsonb, finish jsonb, due_ms bigint,
  turn bigint, task text, session text, was text, became text, refused text, detail text
);

-- `steps` is an array of objects, each about another task; `ending` names the turns that leave their owner's hands; the
-- events are given with the number of their step and their place in it. Returns for each step the number of its last event,
-- or why it was refused: 'stale', 'illegal' (with the status and the move), 'attempt'; or a single 'alone' when nothing was
-- done because this has to be called with `alone`.
CREATE FUNCTION harvest_append(
  alone boolean, steps text, ending text[], event_steps int[], event_places int[], event_bodies text[])
RETURNS TABLE (step int, refused text, detail text, last bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  list jsonb := steps::jsonb;
  checked harvest_step[];
  s harvest_step;
BEGIN
  PERFORM harvest_lock(alone);
  IF NOT alone AND cardinality(ending) > 0 AND harvest_touches_others(ending) THEN
    RETURN QUERY SELECT 0, 'alone', NULL::text, NULL::bigint;
    RETURN;
  END IF;
  PERFORM 1 FROM turns WHERE id IN (SELECT l.turn FROM jsonb_to_recordset(list) AS l (turn text)) ORDER BY number FOR UPDATE;
  checked := ARRAY(
    SELECT ROW(
      l.step, l.at, l.events, l.usage, l.attempt, l.finish, l.due_ms,
      turns.number, turns.task_id, turns.session_id, tasks.status, harvest_moved(tasks.status, l.moves),
      CASE WHEN turns.number IS NULL OR turns.status <> 'claimed' OR turns.fence <> l.fence THEN 'stale' END, NULL
    )::harvest_step
    FROM jsonb_to_recordset(list) AS l (
      step int, turn text, fence bigint, at text, events int, moves text[], usage bigint[], attempt jsonb, finish jsonb,
      due_ms bigint)
    LEFT JOIN turns ON turns.id = l.turn
    LEFT JOIN tasks ON tasks.id = turns.task_id);

  FOR nth IN 1..cardinality(checked) LOOP
    s := checked[nth];
    IF s.refused IS NOT NULL THEN
      CONTINUE;
    ELSIF s.became LIKE '% %' THEN
      s.refused := 'illegal';
      s.detail := s.became;
      checked[nth] := s;
    ELSIF s.attempt IS NOT NULL AND NOT harvest_attempt(s.attempt, s.at) THEN
      s.refused := 'attempt';
      s.detail := s.attempt ->> 'id';
      checked[nth] := s;
    END IF;
  END LOOP;

  UPDATE tasks SET status = c.became,
      reason = CASE WHEN c.finish IS NULL THEN reason ELSE c.finish ->> 'reason' END,
      error = CASE WHEN c.finish IS NULL THEN error ELSE c.finish ->> 'error' END,
      branch = CASE WHEN c.finish IS NULL THEN branch ELSE c.finish ->> 'branch' END,
      commit_id = CASE WHEN c.finish IS NULL THEN commit_id ELSE c.finish ->> 'commit' END,
      evidence = CASE WHEN c.finish IS NULL THEN evidence ELSE c.finish ->> 'evidence' END,
      finished_at = CASE WHEN c.finish IS NULL THEN finished_at ELSE c.at END,
      retries_left = CASE WHEN c.due_ms IS NULL THEN retries_left ELSE greatest(retries_left - 1, 0) END,
      input_tokens = input_tokens + c.usage[1], output_tokens = output_tokens + c.usage[2],
      cache_read_tokens = cache_read_tokens + c.usage[3], cache_write_tokens = cache_write_tokens + c.usage[4],
      reasoning_tokens = reasoning_tokens + c.usage[5], cost_nanos = cost_nanos + c.usage[6]
    FROM unnest(checked) AS c
    WHERE tasks.id = c.task AND c.refused IS NULL
      AND (c.finish IS NOT NULL OR c.became <> c.was OR c.usage <> '{0,0,0,0,0,0}' OR c.due_ms IS NOT NULL);
  IF cardinality(ending) > 0 THEN
    UPDATE turns SET status = CASE WHEN c.due_ms IS NULL THEN 'done' ELSE 'waiting' END, owner = NULL,
        lease_until_ms = NULL, due_ms = c.due_ms
      FROM unnest(checked) AS c
      WHERE turns.number = c.turn AND c.refused IS NULL AND (c.finish IS NOT NULL OR c.due_ms IS NOT NULL);
    IF alone THEN
      PERFORM harvest_ended(checked);
    END IF;
  END IF;
  RETURN QUERY
    WITH grown AS (
      UPDATE sessions SET last_seq = last_seq + c.events
        FROM unnest(checked) AS c
        WHERE sessions.id = c.session AND c.refused IS NULL
        RETURNING c.step, c.at, sessions.number AS journal, last_seq - c.events AS before, last_seq
    ), written AS (
      INSERT INTO events (session, seq, at, body)
        SELECT g.journal, g.before + e.place, g.at, e.body
        FROM unnest(event_steps, event_places, event_bodies) AS e (step, place, body) JOIN grown AS g ON g.step = e.step
    )
    SELECT g.step, NULL::text, NULL::text, g.last_seq FROM grown AS g
    UNION ALL
    SELECT c.step, c.refused, c.detail, NULL::bigint FROM unnest(checked) AS c WHERE c.refused IS NOT NULL;
END $$;

-- Turns have left their owners' hands: places get free, others may go or go with them.
CREATE FUNCTION harvest_ended(steps harvest_step[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  s harvest_step;
BEGIN
  FOREACH s IN ARRAY steps LOOP
    IF s.refused IS NULL AND (s.finish IS NOT NULL OR s.due_ms IS NOT NULL) THEN
      PERFORM harvest_give_back(s.turn);
      IF s.finish ->> 'status' = 'completed' THEN
        PERFORM harvest_unblock(s.task);
      ELSIF s.finish IS NOT NULL THEN
        PERFORM harvest_cancel_followers(ARRAY[s.task], s.at);
      END IF;
    END IF;
  END LOOP;
END $$;

-- What a step says about an attempt; false when there already is one of that id.
CREATE FUNCTION harvest_attempt(attempt jsonb, at_time text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  CASE attempt ->> 'what'
    WHEN 'started' THEN
      INSERT INTO attempts (id, turn_id, agent, command, started_at)
        VALUES (attempt ->> 'id', attempt ->> 'turn', attempt ->> 'agent', attempt ->> 'command', attempt ->> 'started_at')
        ON CONFLICT (id) DO NOTHING;
      RETURN FOUND;
    WHEN 'journaled' THEN
      UPDATE attempts SET journaled = (attempt ->> 'offset')::bigint WHERE id = attempt ->> 'id';
    WHEN 'finished' THEN
      UPDATE attempts SET exit_code = (attempt ->> 'exit_code')::bigint, stderr_tail = attempt ->> 'stderr_tail',
          finished_at = at_time
        WHERE id = attempt ->> 'id';
  END CASE;
  RETURN true;
END $$;
