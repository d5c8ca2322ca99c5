-- Races: who has won, and those who wait to hear it.

-- Lets a task win, unless another has. Returns who has won, or NULL when the lease is void.
CREATE FUNCTION harvest_win(turn_number bigint, of_fence bigint, of_race text, of_task text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_lock(false);
  IF NOT EXISTS (SELECT 1 FROM turns WHERE number = turn_number AND status = 'claimed' AND fence = of_fence) THEN
    RETURN NULL;
  END IF;
  INSERT INTO races (id, winner) VALUES (of_race, of_task) ON CONFLICT DO NOTHING;
  -- Whoever waits for the verdict wants to know.
  PERFORM harvest_wake();
  RETURN (SELECT winner FROM races WHERE id = of_race);
END $$;

-- A claimed turn keeps its owner and gives its places away. False when the lease is void.
CREATE FUNCTION harvest_step_aside(turn_number bigint, of_fence bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  was_aside boolean;
BEGIN
  PERFORM harvest_lock(true);
  SELECT aside INTO was_aside FROM turns WHERE number = turn_number AND status = 'claimed' AND fence = of_fence;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF NOT was_aside THEN
    PERFORM harvest_give_back(turn_number);
    UPDATE turns SET aside = true WHERE number = turn_number;
  END IF;
  RETURN true;
END $$;

-- One turn is given back by whoever holds it. False when the lease is void.
CREATE FUNCTION harvest_let_go(turn_number bigint, of_fence bigint, at_time text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  of_owner text;
BEGIN
  PERFORM harvest_lock(true);
  SELECT owner INTO of_owner FROM turns WHERE number = turn_number AND status = 'claimed' AND fence = of_fence;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM leases WHERE owner = of_owner AND turn = turn_number;
  PERFORM harvest_requeue(ARRAY[turn_number], 'the worker takes no more work', at_time);
  RETURN true;
END $$;
