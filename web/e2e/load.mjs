// Much of everything: agents that print a lot, and thousands of tasks.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Prints `count` lines, 20 at a time, at about a thousand a second when `pace` says so. */
export function chatty(world, id, count, { paced }) {
  const wait = paced ? "; sleep 0.018" : "";
  const step = paced ? 20 : 1000;
  world.addAgent(
    id,
    id,
    `cat > /dev/null; i=0; while [ $i -lt ${count} ]; do seq -f 'Line %g of many that an agent may print while it works' $((i + 1)) $((i + ${step})); i=$((i + ${step}))${wait}; done; echo That was all of it.`,
  );
}

/** Tasks as another tracker has them: thousands of them come in by one file. */
export function importTasks(world, count) {
  const file = join(world.folder, "issues.jsonl");
  const at = (index) => new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString();
  const line = (index) =>
    JSON.stringify({
      id: `many-${index}`,
      title: `Task ${index} of many, with a title that is as long as titles are`,
      status: "open",
      priority: 2,
      issue_type: "task",
      created_at: at(index),
      updated_at: at(index),
    });
  writeFileSync(file, Array.from({ length: count }, (_, index) => line(index)).join("\n") + "\n");
  world.harvest("import", "beads", file, "--repo", world.repo);
}

/** Everything that makes a page stutter, from now until it is asked for. */
export async function watchFrames(page) {
  // The processor's time too: on a busy machine a frame waits for others, and that is not the page's doing.
  page.metrics = await page.context().newCDPSession(page);
  await page.metrics.send("Performance.enable", { timeDomain: "threadTicks" });
  page.spentBefore = await taskTime(page);
  await page.evaluate(() => {
    const seen = { longest: 0, over: 0, frames: 0, tasks: [], last: performance.now(), on: true };
    window.frames_ = seen;
    const tick = (now) => {
      const took = now - seen.last;
      seen.last = now;
      seen.frames += 1;
      seen.longest = Math.max(seen.longest, took);
      if (took > 100) seen.over += 1;
      if (seen.on) requestAnimationFrame(tick);
    };
    requestAnimationFrame((now) => {
      seen.last = now;
      requestAnimationFrame(tick);
    });
    seen.observer = new PerformanceObserver((list) => {
      for (const one of list.getEntries()) seen.tasks.push(Math.round(one.duration));
    });
    seen.observer.observe({ entryTypes: ["longtask"] });
  });
}

async function taskTime(page) {
  const { metrics } = await page.metrics.send("Performance.getMetrics");
  return metrics.find((one) => one.name === "TaskDuration").value * 1000;
}

export async function seenFrames(page) {
  const spent = (await taskTime(page)) - page.spentBefore;
  const seen = await page.evaluate(() => {
    const { longest, over, frames, tasks, observer } = window.frames_;
    window.frames_.on = false;
    observer.disconnect();
    return { longest: Math.round(longest), over, frames, tasks };
  });
  return { ...seen, each: (spent / seen.frames).toFixed(1) };
}

export const nodes = (page) => page.evaluate(() => document.querySelectorAll("*").length);

/** From end to end, a bit with every frame, as a wheel does. */
export async function scroll(page, region, { pixels = 400, frames = 200, from }) {
  await page.getByRole("region", { name: region }).evaluate(
    (element, { pixels, frames, from }) =>
      new Promise((resolve) => {
        if (from !== undefined) element.scrollTop = from < 0 ? element.scrollHeight : from;
        let left = frames;
        const step = () => {
          element.scrollTop += pixels;
          left -= 1;
          if (left > 0) requestAnimationFrame(step);
          else resolve();
        };
        requestAnimationFrame(step);
      }),
    { pixels, frames, from },
  );
}
