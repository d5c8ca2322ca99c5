// Queues jobs that do nothing and has processes work them off: node graphile.mjs SOCKET DATABASE JOBS [BATCH]
// Prints jobs per second. With BATCH each process fetches and completes that many at a time.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Logger, run, runMigrations } from "graphile-worker";
import pg from "pg";

const PROCESSES = 4, CONCURRENCY = 16, AT_ONCE = 5000;
const [host, database, jobs, batch] = process.argv.slice(2);
const pgPool = new pg.Pool({ host, database, user: "harvest", max: CONCURRENCY + 4 });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});

if (process.send) {
    await work();
} else {
    await measure();
}

async function measure() {
    await runMigrations({ pgPool, logger });
    for (let made = 0; made < jobs; made += AT_ONCE) {
        await pgPool.query(
            `select count(*) from graphile_worker.add_jobs(array(
                select row('nothing', '{}', null, null, null, null, null, null)::graphile_worker.job_spec
                from generate_series(1, $1)))`,
            [Math.min(AT_ONCE, jobs - made)],
        );
    }
    const workers = Array.from({ length: PROCESSES }, () => fork(fileURLToPath(import.meta.url), process.argv.slice(2)));
    await Promise.all(workers.map((worker) => new Promise((ready) => worker.once("message", ready))));
    const began = performance.now();
    const done = new Map();
    await new Promise((finished, failed) => {
        for (const worker of workers) {
            worker.on("message", (count) => {
                done.set(worker, count);
                if ([...done.values()].reduce((a, b) => a + b) >= jobs) finished();
            });
            worker.on("exit", () => failed(new Error("a worker ended early")));
            worker.send("go");
        }
    });
    const seconds = (performance.now() - began) / 1000;
    for (const worker of workers) {
        worker.removeAllListeners("exit");
        worker.send("stop");
        await new Promise((ended) => worker.once("exit", ended));
    }
    const left = await pgPool.query("select count(*)::int as jobs from graphile_worker.jobs");
    await pgPool.end();
    if (left.rows[0].jobs !== 0) throw new Error(`${left.rows[0].jobs} jobs are left`);
    console.log((jobs / seconds).toFixed(0));
}

async function work() {
    const order = () => new Promise((heard) => process.once("message", heard));
    const go = order();
    await pgPool.query("select 1");
    process.send(0);
    await go;
    const stop = order();
    let done = 0, told = 0;
    setInterval(() => {
        if (done > told) process.send((told = done));
    }, 10);
    const size = Number(batch);
    const worker = size ? { localQueue: { size }, completeJobBatchDelay: 0 } : {};
    const taskList = { nothing: async () => { done += 1; } };
    const runner = await run({
        pgPool, logger, taskList, concurrency: CONCURRENCY, noHandleSignals: true, preset: { worker },
    });
    await stop;
    await runner.stop();
    process.exit(0);
}
