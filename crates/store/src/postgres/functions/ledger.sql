-- Money that is set aside for calls under way, and what accounts have spent.

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
