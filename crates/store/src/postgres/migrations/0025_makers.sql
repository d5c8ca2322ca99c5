-- The token that made a token: when it is revoked, so are those it has made.
ALTER TABLE tokens ADD COLUMN made_by TEXT COLLATE "C";
CREATE INDEX tokens_by_maker ON tokens (made_by) WHERE made_by IS NOT NULL;
