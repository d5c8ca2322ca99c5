-- Turns that someone wants stopped, as claimed then: a later claim of the same turn is another matter.
CREATE TABLE stops (
  turn BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  PRIMARY KEY (turn, fence)
);
