-- Claims and leases.

-- Takes ready turns, the best first. Rows that someone else is taking are passed over, so that claimers never wait for each
-- other. Turns of warm repositories have a head start of five minutes.
CREATE FUNCTION harvest_claim(by_owner text, only_turn text, most int, warm text[], at_time text, until_ms bigint)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[], last bigint) LANGUAGE plpgsql AS $$
DECLARE
  chosen bigint[] := '{}';
  places tid[] := '{}';
  best bigint;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(7233182601);
  IF only_turn IS NOT NULL THEN
    SELECT array_agg(r.turn), array_agg(r.place) INTO chosen, places FROM (
      SELECT ready.turn, ready.ctid AS place FROM turns JOIN ready ON ready.rank = turns.rank AND ready.turn = turns.number
      WHERE turns.id = only_turn FOR UPDATE OF ready SKIP LOCKED) AS r;
  ELSIF NOT (SELECT paused FROM queue) THEN
    IF cardinality(warm) > 0 THEN
      SELECT ready.rank INTO best FROM ready ORDER BY ready.rank, ready.turn LIMIT 1;
      SELECT coalesce(array_agg(r.turn), '{}'), coalesce(array_agg(r.place), '{}') INTO chosen, places FROM (
        SELECT ready.turn, ready.ctid AS place FROM ready JOIN (
          SELECT near.rank, near.turn
          FROM unnest(warm) AS w (place)
          CROSS JOIN LATERAL (
            SELECT r.rank, r.turn FROM ready AS r WHERE r.repository = w.place AND r.rank <= best + 300000
            ORDER BY r.rank, r.turn LIMIT most) AS near
          ORDER BY near.rank, near.turn LIMIT most) AS warm_ones
          ON ready.rank = warm_ones.rank AND ready.turn = warm_ones.turn
        ORDER BY ready.rank, ready.turn FOR UPDATE OF ready SKIP LOCKED) AS r;
    END IF;
    IF cardinality(chosen) < most THEN
      SELECT chosen || array_agg(r.turn), places || array_agg(r.place) INTO chosen, places FROM (
        SELECT ready.turn, ready.ctid AS place FROM ready WHERE ready.turn <> ALL(chosen)
        ORDER BY ready.rank, ready.turn LIMIT most - cardinality(chosen) FOR UPDATE SKIP LOCKED) AS r;
    END IF;
  END IF;
  IF coalesce(cardinality(chosen), 0) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH taken AS (
      UPDATE turns SET status = 'claimed', owner = by_owner, fence = turns.fence + 1
        WHERE number = ANY(chosen)
        RETURNING number, id, session_id, task_id, turns.fence, turns.task, turns.session, ordinal, author
    ), gone AS (
      DELETE FROM ready WHERE ctid = ANY(places)
    ), leased AS (
      INSERT INTO leases (owner, turn, until_ms) SELECT by_owner, taken.number, harvest_claim.until_ms FROM taken
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

-- Extends every lease that the owner still has. One that is about to end is left alone, for no one waits for anyone here.
CREATE FUNCTION harvest_heartbeat(of_owner text, until_ms bigint)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_lock(false);
  RETURN QUERY
    WITH held AS (
      SELECT leases.turn FROM leases WHERE leases.owner = of_owner
    ), extended AS (
      UPDATE leases SET until_ms = harvest_heartbeat.until_ms
        WHERE leases.owner = of_owner AND leases.turn = ANY(ARRAY(
          SELECT l.turn FROM leases AS l WHERE l.owner = of_owner FOR UPDATE SKIP LOCKED))
    )
    SELECT t.task_id, t.session_id, t.id, t.fence, ARRAY[t.task, t.session, t.number]
      FROM held JOIN turns AS t ON t.number = held.turn;
END $$;

-- Takes over the turns of a dead owner, all or those of some sessions; the old leases are void from here on. Whoever was asked
-- to stop one still is.
CREATE FUNCTION harvest_take_over(dead text, heir text, only_sessions text[])
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_lock(true);
  RETURN QUERY
    WITH taken AS (
      UPDATE leases SET owner = heir, until_ms = NULL WHERE leases.owner = dead
        AND (only_sessions IS NULL OR leases.turn IN (SELECT t.number FROM turns AS t WHERE t.session_id = ANY(only_sessions)))
        RETURNING leases.turn
    )
    UPDATE turns SET owner = heir, fence = turns.fence + 1 FROM taken WHERE turns.number = taken.turn
      RETURNING turns.task_id, turns.session_id, turns.id, turns.fence, ARRAY[turns.task, turns.session, turns.number];
END $$;

-- The turns, whose leases are gone, are in the queue again; their tasks and journals say so. One after the other: those that
-- are still to come hold their places until it is decided whether they keep them.
CREATE FUNCTION harvest_requeue(lost bigint[], why text, at_time text)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql AS $$
DECLARE
  place bigint;
BEGIN
  FOREACH place IN ARRAY lost LOOP
    UPDATE turns SET fence = turns.fence + 1 WHERE number = place
      RETURNING task_id, session_id, id, turns.fence, ARRAY[turns.task, turns.session, number]
      INTO task, session, turn, fence, rows;
    PERFORM harvest_put(place, 'ready');
    UPDATE tasks SET status = harvest_after(status, 'lose_lease') WHERE id = task;
    PERFORM harvest_journal(session, at_time, ARRAY[json_build_object('type', 'warning', 'data', json_build_object(
      'message', why || '; the turn is in the queue again'))::text]);
    PERFORM harvest_keep_places(place, task);
    PERFORM harvest_wake();
    RETURN NEXT;
  END LOOP;
END $$;

-- Gives back every turn of an owner that is known to be dead.
CREATE FUNCTION harvest_release(dead text, at_time text)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql AS $$
DECLARE
  lost bigint[];
BEGIN
  PERFORM harvest_lock(true);
  WITH gone AS (DELETE FROM leases WHERE leases.owner = dead RETURNING leases.turn)
    SELECT coalesce(array_agg(gone.turn), '{}') INTO lost FROM gone;
  RETURN QUERY SELECT * FROM harvest_requeue(lost, 'the worker was lost', at_time);
END $$;

-- Gives back turns whose lease has run out, and hands out those whose next try is due. Called often and mostly for nothing:
-- the lock is taken only when there is something to do.
CREATE FUNCTION harvest_reclaim(now_ms bigint, at_time text, OUT expired bigint, OUT due bigint, OUT next_due_ms bigint)
LANGUAGE plpgsql AS $$
DECLARE
  lost bigint[];
  t record;
BEGIN
  expired := 0;
  due := 0;
  IF EXISTS (SELECT 1 FROM leases WHERE until_ms < now_ms) OR EXISTS (SELECT 1 FROM turns WHERE due_ms <= now_ms) THEN
    PERFORM harvest_lock(true);
    WITH late AS (
      SELECT owner, turn FROM leases WHERE until_ms < now_ms ORDER BY until_ms LIMIT 500
    ), gone AS (
      DELETE FROM leases USING late WHERE leases.owner = late.owner AND leases.turn = late.turn RETURNING leases.turn
    )
    SELECT coalesce(array_agg(gone.turn), '{}') INTO lost FROM gone;
    SELECT count(*) INTO expired FROM harvest_requeue(lost, 'the worker was lost', at_time);
    FOR t IN SELECT number, task_id FROM turns WHERE due_ms <= now_ms ORDER BY due_ms LIMIT 500 LOOP
      PERFORM harvest_admit(t.number, t.task_id);
      due := due + 1;
    END LOOP;
  END IF;
  SELECT min(due_ms) INTO next_due_ms FROM turns WHERE due_ms IS NOT NULL;
END $$;

-- Asks whoever works on a task to stop, and whoever goes on with the same turn. Whoever gives a turn back to people holds the
-- lock alone, and so either sees this or is not asked any more. False when no one works on it.
CREATE FUNCTION harvest_request_stop(of_task text, as_how text, as_weight smallint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  asked boolean;
BEGIN
  PERFORM harvest_lock(false);
  DELETE FROM stops WHERE turn IN (SELECT number FROM turns WHERE status = 'done' AND number IN (SELECT turn FROM stops));
  INSERT INTO stops (turn, how, weight) SELECT number, as_how, as_weight FROM turns
    WHERE task_id = of_task AND status = 'claimed'
    ON CONFLICT (turn) DO UPDATE SET how = excluded.how, weight = excluded.weight WHERE excluded.weight >= stops.weight;
  SELECT EXISTS (SELECT 1 FROM stops JOIN turns ON turns.number = stops.turn
    WHERE turns.task_id = of_task AND turns.status = 'claimed') INTO asked;
  PERFORM harvest_wake();
  RETURN asked;
END $$;

-- Claims a waiting turn to end its task, without a try and without an event: no one is going to work on it. A retry or
-- follow-up that nobody has begun is withdrawn, and its task keeps the result before it.
CREATE FUNCTION harvest_claim_to_stop(of_task text, as_how text, as_weight smallint, by_owner text, until_ms bigint)
RETURNS TABLE (task text, session text, turn text, fence bigint, rows bigint[]) LANGUAGE plpgsql AS $$
DECLARE
  t turns%ROWTYPE;
BEGIN
  PERFORM harvest_lock(true);
  SELECT turns.* INTO t FROM turns JOIN tasks ON tasks.number = turns.task
    WHERE turns.task_id = of_task AND turns.status IN ('ready', 'blocked', 'waiting', 'parked', 'held')
      AND turns.fence > coalesce((tasks.former::json ->> 'fence')::bigint, 0)
      AND tasks.status IN ('pending', 'interrupted');
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF t.status <> 'ready' THEN
    UPDATE turn_caps SET parked = false WHERE turn_caps.turn = t.number AND parked;
    UPDATE turns SET aside = true WHERE number = t.number;
  END IF;
  PERFORM harvest_put(t.number, 'claimed');
  UPDATE turns SET owner = by_owner, fence = turns.fence + 1 WHERE number = t.number RETURNING turns.fence INTO fence;
  INSERT INTO leases (owner, turn, until_ms) VALUES (by_owner, t.number, harvest_claim_to_stop.until_ms);
  IF t.status = 'held' THEN
    UPDATE tasks SET status = harvest_after(status, 'resume') WHERE id = of_task;
  END IF;
  UPDATE tasks SET status = harvest_after(status, 'claim') WHERE id = of_task;
  PERFORM harvest_request_stop(of_task, as_how, as_weight);
  task := of_task;
  session := t.session_id;
  turn := t.id;
  rows := ARRAY[t.task, t.session, t.number];
  RETURN NEXT;
END $$;
