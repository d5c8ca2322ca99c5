-- How a turn is to be stopped, as JSON; NULL: it is cancelled.
ALTER TABLE stops ADD COLUMN how TEXT;
