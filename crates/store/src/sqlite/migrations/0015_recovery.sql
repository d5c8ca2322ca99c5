-- How a turn is to be stopped, as JSON; NULL: it is cancelled.
ALTER TABLE stops ADD COLUMN how TEXT;

-- Why a worker takes no work for the moment, for whoever asks.
ALTER TABLE owners ADD COLUMN holding TEXT;
