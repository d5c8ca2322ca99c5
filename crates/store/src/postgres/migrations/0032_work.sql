-- The functions are made anew with every upgrade: from here on a task that is cancelled keeps what its turn has done.
SELECT 1;
