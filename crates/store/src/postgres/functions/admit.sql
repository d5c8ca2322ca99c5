-- Which turns may be claimed: those that wait for nothing and find a place under all their caps. Every function here is
-- called by someone who holds the lock alone.

-- Moves a turn to another place in the queue, or out of it.
CREATE FUNCTION harvest_put(turn_number bigint, into_status text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  t record;
BEGIN
  SELECT status, rank, repository, owner INTO t FROM turns WHERE number = turn_number;
  IF t.status = 'ready' THEN
    DELETE FROM ready WHERE rank = t.rank AND turn = turn_number;
  ELSIF t.status = 'claimed' THEN
    DELETE FROM leases WHERE owner = t.owner AND turn = turn_number;
  END IF;
  UPDATE turns SET status = into_status, owner = NULL, due_ms = NULL WHERE number = turn_number;
  IF into_status = 'ready' THEN
    INSERT INTO ready (rank, turn, repository) VALUES (t.rank, turn_number, t.repository);
  END IF;
END $$;

-- The last of the ready turns under a cap that come after a turn; NULL when there is none.
CREATE FUNCTION harvest_worst_behind(turn_number bigint, of_cap text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  own_rank bigint;
  worst bigint;
BEGIN
  SELECT rank INTO own_rank FROM turns WHERE number = turn_number;
  SELECT ready.turn INTO worst FROM ready JOIN turn_caps ON turn_caps.turn = ready.turn AND turn_caps.cap = of_cap
    WHERE (ready.rank, ready.turn) > (own_rank, turn_number) ORDER BY ready.rank DESC, ready.turn DESC LIMIT 1;
  RETURN worst;
END $$;

-- Takes a place under every cap of the turn, or under none. Ready turns that are worth less make room for it: what a cap lets
-- in is decided by rank until a worker has claimed it.
CREATE FUNCTION harvest_try_ready(turn_number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  full_cap text;
  other bigint;
  displaced bigint[] := '{}';
  freed text[] := '{}';
BEGIN
  FOR full_cap IN SELECT caps.name FROM turn_caps JOIN caps ON caps.name = turn_caps.cap
                  WHERE turn_caps.turn = turn_number AND caps.used >= caps.size ORDER BY caps.name LOOP
    CONTINUE WHEN full_cap = ANY(freed);
    other := harvest_worst_behind(turn_number, full_cap);
    IF other IS NULL THEN
      RETURN false;
    END IF;
    displaced := displaced || other;
    freed := freed || ARRAY(SELECT cap FROM turn_caps WHERE turn = other);
  END LOOP;
  FOREACH other IN ARRAY displaced LOOP
    UPDATE turn_caps SET parked = true WHERE turn = other;
    PERFORM harvest_put(other, 'parked');
    UPDATE caps SET used = used - 1 WHERE name IN (SELECT cap FROM turn_caps WHERE turn = other);
  END LOOP;
  UPDATE caps SET used = used + 1 WHERE name IN (SELECT cap FROM turn_caps WHERE turn = turn_number);
  UPDATE turn_caps SET parked = false WHERE turn = turn_number AND parked;
  PERFORM harvest_put(turn_number, 'ready');
  PERFORM harvest_wake();
  FOREACH full_cap IN ARRAY freed LOOP
    PERFORM harvest_promote(full_cap);
  END LOOP;
  RETURN true;
END $$;

-- Puts a turn that no one holds where it belongs: blocked, parked or ready.
CREATE FUNCTION harvest_admit(turn_number bigint, of_task text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT blockers FROM tasks WHERE id = of_task) > 0 THEN
    PERFORM harvest_put(turn_number, 'blocked');
  ELSIF NOT harvest_try_ready(turn_number) THEN
    UPDATE turn_caps SET parked = true WHERE turn = turn_number;
    PERFORM harvest_put(turn_number, 'parked');
  END IF;
END $$;

-- Lets parked turns of a cap become ready, the best first, until it is full of those that go before the rest. Looks far
-- enough ahead that one which is held by another cap does not block it.
CREATE FUNCTION harvest_promote(of_cap text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  candidate bigint;
BEGIN
  FOR candidate IN SELECT turn FROM turn_caps WHERE cap = of_cap AND parked ORDER BY rank, turn LIMIT 32 LOOP
    EXIT WHEN (SELECT used >= size FROM caps WHERE name = of_cap) AND harvest_worst_behind(candidate, of_cap) IS NULL;
    -- One before it may have made room that it took.
    IF EXISTS (SELECT 1 FROM turn_caps WHERE turn = candidate AND cap = of_cap AND parked) THEN
      PERFORM harvest_try_ready(candidate);
    END IF;
  END LOOP;
END $$;

-- Gives back the places of a turn that was ready or claimed, and lets parked ones take them. One that stepped aside has none.
CREATE FUNCTION harvest_give_back(turn_number bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  freed text;
BEGIN
  UPDATE turns SET aside = false WHERE number = turn_number AND aside;
  IF FOUND THEN
    RETURN;
  END IF;
  UPDATE caps SET used = used - 1 WHERE name IN (SELECT cap FROM turn_caps WHERE turn = turn_number);
  FOR freed IN SELECT caps.name FROM turn_caps JOIN caps ON caps.name = turn_caps.cap
               WHERE turn_caps.turn = turn_number ORDER BY caps.name LOOP
    PERFORM harvest_promote(freed);
  END LOOP;
END $$;

-- A turn that was claimed is ready again and keeps its places, unless a cap has become too small in the meantime or someone
-- waits who goes before it. One that had stepped aside takes places again, or waits for them.
CREATE FUNCTION harvest_keep_places(turn_number bigint, of_task text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  kept text;
BEGIN
  UPDATE turns SET aside = false WHERE number = turn_number AND aside;
  IF FOUND THEN
    PERFORM harvest_admit(turn_number, of_task);
    RETURN;
  END IF;
  IF EXISTS (SELECT 1 FROM turn_caps JOIN caps ON caps.name = turn_caps.cap
             WHERE turn_caps.turn = turn_number AND caps.used > caps.size) THEN
    UPDATE turn_caps SET parked = true WHERE turn = turn_number;
    PERFORM harvest_put(turn_number, 'parked');
    PERFORM harvest_give_back(turn_number);
    RETURN;
  END IF;
  FOR kept IN SELECT caps.name FROM turn_caps JOIN caps ON caps.name = turn_caps.cap
              WHERE turn_caps.turn = turn_number ORDER BY caps.name LOOP
    PERFORM harvest_promote(kept);
  END LOOP;
END $$;

-- The size of a cap, now; NULL lifts it. Ready turns beyond it are parked; claimed ones go on.
CREATE FUNCTION harvest_set_cap(of_cap text, new_size bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  moved bigint[];
  candidate bigint;
  freed text;
BEGIN
  PERFORM harvest_lock(true);
  SELECT coalesce(array_agg(turns.number), '{}') INTO moved
    FROM turn_caps JOIN turns ON turns.number = turn_caps.turn WHERE turn_caps.cap = of_cap AND turns.status = 'ready';
  UPDATE caps SET used = used - back.places
    FROM (SELECT cap, count(*) AS places FROM turn_caps WHERE turn = ANY(moved) GROUP BY cap) AS back
    WHERE caps.name = back.cap;
  UPDATE turn_caps SET parked = true WHERE turn = ANY(moved);
  DELETE FROM ready USING turns WHERE turns.number = ANY(moved) AND ready.rank = turns.rank AND ready.turn = turns.number;
  UPDATE turns SET status = 'parked' WHERE number = ANY(moved);
  IF new_size IS NULL THEN
    DELETE FROM caps WHERE name = of_cap;
  ELSE
    INSERT INTO caps (name, size, used)
      SELECT of_cap, new_size, count(*) FROM turn_caps JOIN turns ON turns.number = turn_caps.turn
      WHERE turn_caps.cap = of_cap AND turns.status = 'claimed' AND NOT turns.aside
      ON CONFLICT (name) DO UPDATE SET size = excluded.size, used = excluded.used;
  END IF;
  FOR candidate IN SELECT turn FROM turn_caps WHERE cap = of_cap AND parked ORDER BY rank, turn LOOP
    IF EXISTS (SELECT 1 FROM turn_caps WHERE turn = candidate AND cap = of_cap AND parked) THEN
      PERFORM harvest_try_ready(candidate);
    END IF;
  END LOOP;
  -- What was parked just now may have left places under other caps.
  FOR freed IN SELECT DISTINCT cap FROM turn_caps WHERE turn = ANY(moved) AND parked AND cap <> of_cap ORDER BY cap LOOP
    PERFORM harvest_promote(freed);
  END LOOP;
  PERFORM harvest_wake();
END $$;

-- A task has completed: those that waited for it only may go.
CREATE FUNCTION harvest_unblock(completed text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  waiting text;
  blocked bigint;
BEGIN
  FOR waiting IN UPDATE dependencies SET satisfied = true WHERE after_id = completed AND NOT satisfied RETURNING task_id LOOP
    UPDATE tasks SET blockers = blockers - 1 WHERE id = waiting;
    SELECT number INTO blocked FROM turns WHERE task_id = waiting AND status = 'blocked';
    IF FOUND THEN
      PERFORM harvest_admit(blocked, waiting);
    END IF;
  END LOOP;
END $$;
