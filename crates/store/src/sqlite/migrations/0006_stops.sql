-- Turns that someone wants stopped, as claimed then: a later claim of the same turn is another matter.
CREATE TABLE stops (
  turn INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  PRIMARY KEY (turn, fence)
) STRICT, WITHOUT ROWID;
