-- How a turn that is done ended: completed, failed, cancelled or withdrawn.
ALTER TABLE turns ADD COLUMN ended TEXT;
