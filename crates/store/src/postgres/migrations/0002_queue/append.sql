-- Steps of claimed turns, many in one transaction. Each is checked before it writes anything, so that one which is refused
-- leaves nothing behind and disturbs no other.

-- Whether ending these turns lets others go or takes others along.
CREATE FUNCTION harvest_touches_others(ending text[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT 1 FROM turns JOIN turn_caps ON turn_caps.turn = turns.number JOIN caps ON caps.name = turn_caps.cap
                 WHERE turns.id = ANY(ending))
      OR EXISTS (SELECT 1 FROM turns JOIN dependencies ON dependencies.after_id = turns.task_id
                 WHERE turns.id = ANY(ending) AND NOT dependencies.satisfied);
END $$;

-- `steps` is an array of objects, `ending` names the turns that leave their owner's hands, and the events are given with the
-- number of their step and their place in it. Returns for each step the number of its last event, or why it was refused:
-- 'stale', 'illegal' (with the status and the move), 'attempt'; or 'again' for all when nothing was done.
CREATE FUNCTION harvest_append(steps text, ending text[], event_steps int[], event_places int[], event_bodies text[])
RETURNS TABLE (step int, refused text, detail text, last bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  list jsonb := steps::jsonb;
  alone boolean := cardinality(ending) > 0 AND harvest_touches_others(ending);
  j record;
  t record;
  next_status text;
  step_move text;
  place bigint;
  numbers bigint[] := array_fill(NULL::bigint, ARRAY[jsonb_array_length(list)]);
  firsts bigint[] := numbers;
  times text[] := array_fill(NULL::text, ARRAY[jsonb_array_length(list)]);
BEGIN
  PERFORM harvest_lock(alone);
  IF NOT alone AND cardinality(ending) > 0 AND harvest_touches_others(ending) THEN
    refused := 'again';
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM 1 FROM turns WHERE id IN (SELECT s.turn FROM jsonb_to_recordset(list) AS s (turn text)) ORDER BY number FOR UPDATE;
  FOR j IN SELECT * FROM jsonb_to_recordset(list) AS s (
      step int, turn text, fence bigint, at text, events int, moves text[], usage bigint[], attempt jsonb,
      finish jsonb, due_ms bigint) LOOP
    step := j.step; refused := NULL; detail := NULL; last := NULL;
    SELECT turns.number, turns.session_id, turns.task_id, turns.fence, turns.status, tasks.status AS task_status
      INTO t FROM turns JOIN tasks ON tasks.id = turns.task_id WHERE turns.id = j.turn;
    IF NOT FOUND OR t.status <> 'claimed' OR t.fence <> j.fence THEN
      refused := 'stale';
      RETURN NEXT;
      CONTINUE;
    END IF;
    next_status := t.task_status;
    FOREACH step_move IN ARRAY j.moves LOOP
      IF harvest_after(next_status, step_move) IS NULL THEN
        refused := 'illegal';
        detail := next_status || ' ' || step_move;
        EXIT;
      END IF;
      next_status := harvest_after(next_status, step_move);
    END LOOP;
    IF refused IS NULL AND j.attempt IS NOT NULL AND NOT harvest_attempt(j.attempt, j.at) THEN
      refused := 'attempt';
      detail := j.attempt ->> 'id';
    END IF;
    IF refused IS NOT NULL THEN
      RETURN NEXT;
      CONTINUE;
    END IF;

    IF j.finish IS NOT NULL THEN
      UPDATE tasks SET status = next_status, reason = j.finish ->> 'reason', error = j.finish ->> 'error',
          branch = j.finish ->> 'branch', commit_id = j.finish ->> 'commit', evidence = j.finish ->> 'evidence',
          finished_at = j.at, input_tokens = input_tokens + j.usage[1], output_tokens = output_tokens + j.usage[2],
          cache_read_tokens = cache_read_tokens + j.usage[3], cache_write_tokens = cache_write_tokens + j.usage[4],
          reasoning_tokens = reasoning_tokens + j.usage[5], cost_nanos = cost_nanos + j.usage[6]
        WHERE id = t.task_id;
    ELSIF next_status <> t.task_status OR j.usage <> '{0,0,0,0,0,0}' OR j.due_ms IS NOT NULL THEN
      UPDATE tasks SET status = next_status,
          retries_left = CASE WHEN j.due_ms IS NULL THEN retries_left ELSE greatest(retries_left - 1, 0) END,
          input_tokens = input_tokens + j.usage[1], output_tokens = output_tokens + j.usage[2],
          cache_read_tokens = cache_read_tokens + j.usage[3], cache_write_tokens = cache_write_tokens + j.usage[4],
          reasoning_tokens = reasoning_tokens + j.usage[5], cost_nanos = cost_nanos + j.usage[6]
        WHERE id = t.task_id;
    END IF;
    IF j.finish IS NOT NULL OR j.due_ms IS NOT NULL THEN
      UPDATE turns SET status = CASE WHEN j.due_ms IS NULL THEN 'done' ELSE 'waiting' END, owner = NULL,
          lease_until_ms = NULL, due_ms = j.due_ms
        WHERE number = t.number;
      IF alone THEN
        PERFORM harvest_give_back(t.number);
        IF j.finish ->> 'status' = 'completed' THEN
          PERFORM harvest_unblock(t.task_id);
        ELSIF j.finish IS NOT NULL THEN
          PERFORM harvest_cancel_followers(ARRAY[t.task_id], j.at);
        END IF;
      END IF;
    END IF;
    UPDATE sessions SET last_seq = last_seq + j.events WHERE id = t.session_id
      RETURNING number, last_seq INTO place, last;
    numbers[j.step] := place;
    firsts[j.step] := last - j.events;
    times[j.step] := j.at;
    RETURN NEXT;
  END LOOP;
  INSERT INTO events (session, seq, at, body)
    SELECT numbers[e.step], firsts[e.step] + e.place, times[e.step], e.body
    FROM unnest(event_steps, event_places, event_bodies) AS e (step, place, body)
    WHERE numbers[e.step] IS NOT NULL;
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
