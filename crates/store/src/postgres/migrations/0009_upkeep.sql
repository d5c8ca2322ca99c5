-- Every turn changes its rows several times. Old versions stay on their pages and are cleared away by whoever writes there
-- next, so tasks, sessions and turns need no more cleaning than other tables; places are what comes and goes.
ALTER TABLE tasks RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);
ALTER TABLE sessions RESET (autovacuum_vacuum_scale_factor);
ALTER TABLE turns RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);

-- No plan depends on what is in these tables: statistics are taken anew when they have grown, not when they were worked on.
ALTER TABLE tasks SET (autovacuum_analyze_scale_factor = 2);
ALTER TABLE sessions SET (autovacuum_analyze_scale_factor = 2);
ALTER TABLE turns SET (autovacuum_analyze_scale_factor = 2);
ALTER TABLE events SET (autovacuum_analyze_scale_factor = 2);
ALTER TABLE endings SET (autovacuum_analyze_scale_factor = 2);
ALTER TABLE ready SET (autovacuum_analyze_scale_factor = 10, autovacuum_analyze_threshold = 10000);
ALTER TABLE leases SET (autovacuum_analyze_scale_factor = 10, autovacuum_analyze_threshold = 10000);
