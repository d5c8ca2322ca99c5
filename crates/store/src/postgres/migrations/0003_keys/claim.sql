-- Claims and leases.

-- Takes ready turns, the best first. Rows that someone else is taking are passed over, so that claimers never wait for each
-- other. Turns of warm repositories have a head start of five minutes.
CREATE FUNCTION harvest_claim(by_owner text, only_turn text, most int, warm text[], at_time text, until_ms bigint)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[], last bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  chosen bigint[] := '{}';
  best bigint;
BEGIN
  PERFORM harvest_lock(false);
  IF only_turn IS NOT NULL THEN
    chosen := ARRAY(SELECT number FROM turns WHERE id = only_turn AND status = 'ready' FOR UPDATE);
  ELSIF NOT (SELECT paused FROM queue) THEN
    IF cardinality(warm) > 0 THEN
      SELECT rank INTO best FROM turns WHERE status = 'ready' ORDER BY rank, number LIMIT 1;
      chosen := ARRAY(
        SELECT number FROM turns WHERE status = 'ready' AND number = ANY(ARRAY(
          SELECT near.number
          FROM unnest(warm) AS w (place)
          CROSS JOIN LATERAL (
            SELECT number, rank FROM turns
            WHERE status = 'ready' AND repository = w.place AND rank <= best + 300000
            ORDER BY rank, number LIMIT most) AS near
          ORDER BY near.rank, near.number LIMIT most))
        ORDER BY rank, number FOR UPDATE SKIP LOCKED);
    END IF;
    IF cardinality(chosen) < most THEN
      chosen := chosen || ARRAY(
        SELECT number FROM turns WHERE status = 'ready' AND number <> ALL(chosen)
        ORDER BY rank, number LIMIT most - cardinality(chosen) FOR UPDATE SKIP LOCKED);
    END IF;
  END IF;
  IF cardinality(chosen) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH taken AS (
      UPDATE turns SET status = 'claimed', owner = by_owner, fence = turns.fence + 1, lease_until_ms = until_ms
        WHERE number = ANY(chosen)
        RETURNING number, id, session_id, task_id, turns.fence, turns.task, turns.session, ordinal, author
    ), moved AS (
      UPDATE tasks SET status = harvest_after(tasks.status, 'claim'), tries = tries + 1
        FROM taken WHERE tasks.number = taken.task
    ), grown AS (
      UPDATE sessions SET last_seq = last_seq + 1
        FROM taken WHERE sessions.number = taken.session
        RETURNING last_seq, taken.*
    ), written AS (
      INSERT INTO events (session, seq, at, body)
        SELECT g.session, g.last_seq, at_time, json_build_object('type', 'turn.started', 'data', json_build_object(
          'turn_id', g.id, 'number', g.ordinal, 'author', g.author))::text
        FROM grown AS g
    )
    SELECT g.task_id, g.session_id, g.id, g.fence, ARRAY[g.task, g.session, g.number], g.last_seq
      FROM grown AS g ORDER BY array_position(chosen, g.number);
END $$;

-- Extends every lease that the owner still has.
CREATE FUNCTION harvest_heartbeat(of_owner text, until_ms bigint)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  held bigint[];
BEGIN
  PERFORM harvest_lock(false);
  held := ARRAY(SELECT number FROM turns WHERE owner = of_owner AND status = 'claimed' ORDER BY number FOR UPDATE);
  RETURN QUERY UPDATE turns SET lease_until_ms = until_ms WHERE number = ANY(held)
    RETURNING task_id, session_id, id, turns.fence, ARRAY[turns.task, turns.session, number];
END $$;

-- Takes over the turns of a dead owner; the old leases are void from here on.
CREATE FUNCTION harvest_take_over(dead text, heir text)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM harvest_lock(true);
  RETURN QUERY UPDATE turns SET owner = heir, fence = turns.fence + 1, lease_until_ms = NULL
    WHERE owner = dead AND status = 'claimed' RETURNING task_id, session_id, id, turns.fence, ARRAY[turns.task, turns.session, number];
END $$;

-- The turns are in the queue again; their tasks and journals say so.
CREATE FUNCTION harvest_requeue(lost bigint[], at_time text)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  place bigint;
BEGIN
  FOR place, task, session, turn, fence, rows IN
    UPDATE turns SET status = 'ready', owner = NULL, fence = turns.fence + 1, lease_until_ms = NULL
      WHERE number = ANY(lost)
      RETURNING number, task_id, session_id, id, turns.fence, ARRAY[turns.task, turns.session, number]
  LOOP
    UPDATE tasks SET status = harvest_after(status, 'lose_lease') WHERE id = task;
    PERFORM harvest_journal(session, at_time, ARRAY[json_build_object('type', 'warning', 'data', json_build_object(
      'message', 'the worker was lost; the turn is in the queue again'))::text]);
    PERFORM harvest_park_surplus(place);
    PERFORM harvest_wake();
    RETURN NEXT;
  END LOOP;
END $$;

-- Gives back every turn of an owner that is known to be dead.
CREATE FUNCTION harvest_release(dead text, at_time text)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  PERFORM harvest_lock(true);
  RETURN QUERY SELECT * FROM harvest_requeue(
    ARRAY(SELECT number FROM turns WHERE owner = dead AND status = 'claimed' ORDER BY number), at_time);
END $$;

-- Gives back turns whose lease has run out, and hands out those whose next try is due. Called often and mostly for nothing:
-- the lock is taken only when there is something to do.
CREATE FUNCTION harvest_reclaim(now_ms bigint, at_time text, OUT expired bigint, OUT due bigint, OUT next_due_ms bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  t record;
BEGIN
  expired := 0;
  due := 0;
  IF EXISTS (SELECT 1 FROM turns WHERE status = 'claimed' AND lease_until_ms < now_ms)
     OR EXISTS (SELECT 1 FROM turns WHERE status = 'waiting' AND due_ms <= now_ms) THEN
    PERFORM harvest_lock(true);
    SELECT count(*) INTO expired FROM harvest_requeue(
      ARRAY(SELECT number FROM turns WHERE status = 'claimed' AND lease_until_ms < now_ms ORDER BY lease_until_ms LIMIT 500),
      at_time);
    FOR t IN SELECT number, task_id FROM turns WHERE status = 'waiting' AND due_ms <= now_ms ORDER BY due_ms LIMIT 500 LOOP
      PERFORM harvest_admit(t.number, t.task_id);
      due := due + 1;
    END LOOP;
  END IF;
  SELECT min(due_ms) INTO next_due_ms FROM turns WHERE status = 'waiting';
END $$;
