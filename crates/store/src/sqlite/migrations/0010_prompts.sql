-- Sessions that go on: a turn may be for another agent than the one before, and waits for those before it.
ALTER TABLE turns ADD COLUMN agent TEXT;
ALTER TABLE turns ADD COLUMN model TEXT;
ALTER TABLE turns ADD COLUMN idempotency_key TEXT;
ALTER TABLE turns ADD COLUMN request_digest TEXT;
CREATE UNIQUE INDEX turns_by_key ON turns (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_queued ON turns (task, ordinal) WHERE status = 'queued';
