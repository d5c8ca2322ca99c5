-- Tasks that ended, or began anew, since the sums were last brought up to date. Without a key: it is only added to, and
-- emptied as a whole.
CREATE TABLE uncounted (task BIGINT NOT NULL);
-- What each task adds to the sums, so that it can be taken out again.
CREATE TABLE counted (
  task BIGINT PRIMARY KEY,
  day TEXT COLLATE "C" NOT NULL,
  repository TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  person TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  delivered BIGINT NOT NULL,
  cost_nanos BIGINT NOT NULL,
  time_ms BIGINT NOT NULL
);
CREATE TABLE stats (
  day TEXT COLLATE "C" NOT NULL,
  repository TEXT COLLATE "C" NOT NULL,
  agent TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  person TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  tasks BIGINT NOT NULL,
  delivered BIGINT NOT NULL,
  cost_nanos BIGINT NOT NULL,
  time_ms BIGINT NOT NULL,
  PRIMARY KEY (day, repository, agent, model, person, status)
);
-- Not called harvest_…: those functions are made anew with every upgrade, and a trigger holds on to its own.
CREATE FUNCTION note_uncounted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO uncounted SELECT task FROM changed;
  RETURN NULL;
END $$;
CREATE TRIGGER tasks_ended AFTER INSERT ON endings REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION note_uncounted();
CREATE TRIGGER tasks_begun AFTER DELETE ON endings REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION note_uncounted();
INSERT INTO uncounted SELECT task FROM endings;
