import { expect, test } from "vitest";
import document from "../../../openapi.json";
import { may, mayIn, rolesUpTo, type Needs } from "./may";

const of = (role: "viewer" | "member" | "admin") => ({ role });
/** Someone whose role is the highest that they have in one of two projects. */
const confined = { role: "admin", projects: ["shop", "farm"], roles: { shop: "viewer", farm: "admin" } } as const;
const person = { ...confined, projects: [...confined.projects] };

test("a role includes the lower ones, and whoever is not signed in may do nothing", () => {
  const rights = (["viewer", "member", "admin"] as const).map((role) => (["member", "admin", "everywhere"] as const).map((needs) => may(of(role), needs)));
  expect(rights).toEqual([
    [false, false, false],
    [true, false, false],
    [true, true, true],
  ]);
  expect([may(null, "member"), may(undefined, "member")]).toEqual([false, false]);
});

test("an admin of some projects is no admin of the installation", () => {
  expect(may({ role: "admin", projects: [] }, "everywhere")).toBe(false);
  expect(may(person, "everywhere")).toBe(false);
  expect(may(person, "admin")).toBe(true);
});

test("in a project, the role there counts", () => {
  expect([may(person, "member", "shop"), may(person, "admin", "farm"), may(person, "member", "elsewhere")]).toEqual([false, true, false]);
  expect(may(of("admin"), "admin", "shop")).toBe(true);
});

test("for a task, the role in the project of its repository counts", () => {
  const projects = [
    { name: "shop", repositories: ["/src/shop"] },
    { name: "farm", repositories: ["/src/farm"] },
  ];
  expect([mayIn(person, "member", "/src/shop", projects), mayIn(person, "member", "/src/farm", projects)]).toEqual([false, true]);
  expect(mayIn(of("member"), "member", "/src/shop", projects)).toBe(true);
  // Until the projects are known, the server has the last word.
  expect(mayIn(person, "member", "/src/shop", [])).toBe(true);
});

test("a token gets no role above that of the one who makes it", () => {
  const rights = (["viewer", "member", "admin"] as const).map((role) => rolesUpTo(of(role)));
  expect(rights).toEqual([["viewer"], ["viewer", "member"], ["viewer", "member", "admin"]]);
  expect([rolesUpTo(person), rolesUpTo(null)]).toEqual([["viewer", "member", "admin"], []]);
});

const SOURCES = import.meta.glob<string>("../**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
const pages = Object.entries(SOURCES).filter(([path]) => !/\.test\.tsx?$|schema\.ts$|may\.ts$/.test(path));

/** Dialogs that another file opens, and only for those who may. */
const OPENED_BY: Record<string, string> = { "../pages/new-task.tsx": "../pages/tasks.tsx" };

/** What the page asks for when it changes something, with what the API requires for it. */
function* changes(): Generator<[path: string, operation: string, needs: Needs]> {
  const paths: Record<string, Record<string, { security?: Record<string, string[]>[] }>> = document.paths as never;
  for (const [path, source] of pages)
    for (const [, method = "", address = ""] of source.matchAll(/api\.(POST|PUT|PATCH|DELETE)\("([^"]+)"/g)) {
      const words = (paths[address]?.[method.toLowerCase()]?.security ?? []).flatMap((one) => Object.values(one).flat());
      const needs = (["everywhere", "admin", "member"] as const).find((one) => words.includes(one));
      if (needs) yield [path, `${method} ${address}`, needs];
    }
}

test("the page asks for the right that the API requires before it offers a change", () => {
  const all = [...changes()];
  expect(all.length).toBeGreaterThan(25);
  const unasked = all.filter(
    ([path, , needs]) => !new RegExp(`\\b(?:useMay|useMayIn)\\("${needs}"|\\bmay\\([^()]*"${needs}"`).test(SOURCES[OPENED_BY[path] ?? path] ?? ""),
  );
  expect(unasked).toEqual([]);
});

test("no page compares roles itself", () => {
  expect(pages.filter(([, source]) => /role\s*[!=]==?\s*"(?:viewer|member|admin)"/.test(source)).map(([path]) => path)).toEqual([]);
});
