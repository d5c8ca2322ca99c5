-- Sessions that go on: a turn may be for another agent than the one before.
ALTER TABLE turns ADD COLUMN agent TEXT;
ALTER TABLE turns ADD COLUMN model TEXT;
ALTER TABLE turns ADD COLUMN idempotency_key TEXT COLLATE "C";
ALTER TABLE turns ADD COLUMN request_digest TEXT;
CREATE UNIQUE INDEX turns_by_key ON turns (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Turns that wait for those before them in their session. A table of its own, which is empty most of the time: whoever ends
-- a turn looks here.
CREATE TABLE queued (
  task BIGINT NOT NULL,
  ordinal BIGINT NOT NULL,
  turn BIGINT NOT NULL,
  PRIMARY KEY (task, ordinal)
);
