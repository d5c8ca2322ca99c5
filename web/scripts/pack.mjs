// Compresses what is worth it, once, and holds the first load against its bound.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const MOST_SCRIPT = 250 * 1024;
const dist = fileURLToPath(new URL("../dist", import.meta.url));
const sizes = new Map();

for (const entry of readdirSync(dist, { recursive: true })) {
  const path = join(dist, entry);
  if (!statSync(path).isFile() || !/\.(js|css|html|svg)$/.test(path)) continue;
  const packed = gzipSync(readFileSync(path), { level: 9 });
  sizes.set("/" + entry, packed.length);
  if (packed.length < statSync(path).size) writeFileSync(path + ".gz", packed);
}

const index = readFileSync(join(dist, "index.html"), "utf8");
const first = [...index.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map((found) => found[1]);
const bytes = first.reduce((sum, path) => sum + sizes.get(path), 0);
const total = [...sizes].filter(([path]) => path.endsWith(".js")).reduce((sum, [, size]) => sum + size, 0);
console.log(`Script: ${Math.ceil(bytes / 1024)} KB at first, ${Math.ceil(total / 1024)} KB in all, gzipped`);
if (bytes > MOST_SCRIPT) {
  console.error(`The first load is bound to ${MOST_SCRIPT / 1024} KB of script: split a route, or leave something out`);
  process.exit(1);
}
