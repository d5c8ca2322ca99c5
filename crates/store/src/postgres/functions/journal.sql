-- The lock, the moves of a task, and the journal. What follows builds on these.

-- Everyone who writes takes this lock first. `alone` is for what touches several tasks at once (caps, dependencies,
-- cancelling, reclaiming); all others share it and keep to their own turns, so they never wait for each other. One lock,
-- taken first, and turns locked by number behind it: no deadlock.
CREATE FUNCTION harvest_lock(alone boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF alone THEN
    PERFORM pg_advisory_xact_lock(7233182601);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(7233182601);
  END IF;
END $$;

-- The same table as `TaskStatus::after`; a test compares them. NULL when the move is not allowed.
CREATE FUNCTION harvest_after(status text, by text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN by = 'claim' AND status = 'pending' THEN 'provisioning'
    WHEN by = 'start' AND status = 'provisioning' THEN 'running'
    WHEN by = 'lose_lease' AND status IN ('provisioning', 'running') THEN 'pending'
    WHEN by = 'ask_approval' AND status = 'running' THEN 'awaiting_approval'
    WHEN by = 'approve' AND status = 'awaiting_approval' THEN 'pending'
    WHEN by = 'interrupt' AND status = 'running' THEN 'interrupted'
    WHEN by = 'resume' AND status = 'interrupted' THEN 'pending'
    WHEN by = 'complete' AND status = 'running' THEN 'completed'
    WHEN by = 'fail' AND status IN ('provisioning', 'running') THEN 'failed'
    WHEN by = 'retry' AND status IN ('failed', 'cancelled') THEN 'pending'
    WHEN by = 'follow_up' AND status IN ('completed', 'failed') THEN 'pending'
    WHEN by = 'cancel' AND status NOT IN ('completed', 'failed', 'cancelled') THEN 'cancelled'
  END
$$;

-- There may be work to claim, or the queue's settings have changed. (In PL/pgSQL, like everything that is called often: the
-- plans of SQL functions are not kept.)
CREATE FUNCTION harvest_wake() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('harvest_queue', '');
END $$;

-- Journals have grown: `session seq` for each, in as few notices as fit. Whoever appends or claims has this told after its
-- transaction: a notice inside would make every commit wait for the disk behind all others.
CREATE FUNCTION harvest_grown(sessions text[], seqs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('harvest_events', part.pairs)
    FROM (SELECT string_agg(g.session || ' ' || g.seq, ' ') AS pairs
          FROM unnest(sessions, seqs) WITH ORDINALITY AS g (session, seq, place)
          GROUP BY (g.place - 1) / 200) AS part;
END $$;

-- Appends events with the next numbers.
CREATE FUNCTION harvest_journal(of_session text, at_time text, bodies text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  place bigint;
  last bigint;
BEGIN
  UPDATE sessions SET last_seq = last_seq + cardinality(bodies) WHERE id = of_session RETURNING number, last_seq INTO place, last;
  INSERT INTO events (session, seq, at, body)
    SELECT place, last - cardinality(bodies) + b.nth, at_time, b.body FROM unnest(bodies) WITH ORDINALITY AS b (body, nth);
  PERFORM harvest_grown(ARRAY[of_session], ARRAY[last]);
  RETURN last;
END $$;
