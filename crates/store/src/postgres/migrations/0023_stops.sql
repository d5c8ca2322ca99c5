-- A stop is for a turn, whoever works on it, until the turn has ended or waits for a person.
CREATE TABLE wanted_stops (
  turn BIGINT PRIMARY KEY,
  how TEXT,
  weight SMALLINT NOT NULL
);
INSERT INTO wanted_stops (turn, how, weight)
  SELECT stops.turn, stops.how, CASE WHEN stops.how LIKE '%"interrupt"%' THEN 0 WHEN stops.at_once THEN 3 ELSE 2 END
  FROM stops JOIN turns ON turns.number = stops.turn AND turns.fence = stops.fence AND turns.status = 'claimed';
DROP TABLE stops;
ALTER TABLE wanted_stops RENAME TO stops;
