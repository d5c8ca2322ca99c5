-- What is set aside for calls under way.
CREATE TABLE reservations (
  call TEXT COLLATE "C" PRIMARY KEY,
  task BIGINT NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  accounts TEXT[] NOT NULL,            -- user:NAME and project:NAME
  day TEXT COLLATE "C" NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  amount_nanos BIGINT NOT NULL
);
CREATE INDEX reservations_by_task ON reservations (task);

-- What accounts have spent, by day, and by the process that spent it: each knows exactly what it spent itself, and has to
-- ask only for the others.
CREATE TABLE spending (
  day TEXT COLLATE "C" NOT NULL,
  account TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  calls BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  cost_nanos BIGINT NOT NULL,
  PRIMARY KEY (day, account, owner)
);

-- What others than `by_owner` have spent and set aside.
CREATE FUNCTION harvest_balances(of_accounts text[], on_day text, by_owner text)
RETURNS TABLE (account text, spent bigint, reserved bigint) LANGUAGE sql STABLE AS $$
  SELECT a.name,
      (SELECT coalesce(sum(s.cost_nanos), 0)::bigint FROM spending AS s
         WHERE s.day = on_day AND s.account = a.name AND s.owner <> by_owner),
      (SELECT coalesce(sum(r.amount_nanos), 0)::bigint FROM reservations AS r
         WHERE r.day = on_day AND a.name = ANY(r.accounts) AND r.owner <> by_owner)
    FROM unnest(of_accounts) WITH ORDINALITY AS a (name, place) ORDER BY a.place
$$;

-- Sets money aside for a call of a claimed turn; false when the turn is someone else's by now.
CREATE FUNCTION harvest_reserve(
  of_turn bigint, of_fence bigint, of_task bigint, of_call text, by_owner text, of_accounts text[], on_day text,
  of_provider text, of_model text, amount bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harvest_lock(false);
  IF NOT EXISTS (SELECT 1 FROM turns WHERE number = of_turn AND status = 'claimed' AND fence = of_fence) THEN
    RETURN false;
  END IF;
  INSERT INTO reservations (call, task, owner, accounts, day, provider, model, amount_nanos)
    VALUES (of_call, of_task, by_owner, of_accounts, on_day, of_provider, of_model, amount);
  RETURN true;
END $$;
