import { expect, test } from "vitest";
import { ADVICE, adviceFor, detailOf } from "./advice";
import { NAV } from "../nav";

/** Each code has a page. */
const CODES = Object.keys(import.meta.glob("../../../docs/errors/HV-*.md")).map((path) => path.slice(-10, -3));
/** Commands of the command line, their flags, and addresses of the API. */
const COMMANDS = /\bharvest [a-z]|`|--[a-z]|\/api\b|\bgit [a-z]/;

test("every error has advice for the page, without a command", () => {
  expect(CODES.length).toBeGreaterThan(90);
  expect(Object.keys(ADVICE).sort()).toEqual(CODES.sort());
  const pages = NAV.flatMap((group) => group.items);
  for (const code of CODES) {
    for (const help of [null, "see `harvest task list`", "check the tools: harvest doctor", "choose another with --data-dir", 'psql "$HARVEST_DATABASE_URL"']) {
      const advice = adviceFor({ code, help });
      expect(advice?.text, code).toMatch(/^[A-Z“]/);
      expect(advice?.text, code).not.toMatch(COMMANDS);
      // A colon leads to a page, and every page that is named is there.
      expect(advice?.text.endsWith(":"), code).toBe(advice?.to !== undefined);
      if (advice?.to)
        expect(
          pages.map((page) => page.to),
          code,
        ).toContain(advice.to);
      else expect(advice?.text, code).toMatch(/\.$/);
    }
  }
});

test("a problem with a field has the label of the field, and a header has none", () => {
  expect(detailOf({ detail: "at least one cent", field: "budget_usd" })).toBe("Budget: at least one cent");
  expect(detailOf({ detail: "there is no team of that name", field: "team" })).toBe("Team: there is no team of that name");
  expect(detailOf({ detail: "someone changed the settings meanwhile", field: "If-Match" })).toBe("Someone changed the settings meanwhile");
  expect(detailOf({ detail: "the work is not here, or `harvest gc` removed it" })).toBe("The work is not here, or a cleanup removed it");
});

test("advice for people in a browser names no command and no address of the API", () => {
  for (const help of [
    "see GET /api/repositories",
    "`harvest repo build` makes its first snapshot",
    "look at it first: harvest task diff 123; then harvest task apply 123 --force",
    "send the ETag of GET as If-Match",
    "read them again, and send the ETag of that answer",
    "sign in again; the page sends its proof as X-Harvest-CSRF. Programs use a token",
    "wait as long as Retry-After says",
    "`settings.race.id` of a task names the race that it is part of",
    "check the current state; use a new key",
    "commit them first: git commit -a",
    "send `Authorization: Bearer hv_…`; create one with `harvest token create`",
    "if it was lost, revoke it with DELETE /api/tokens/{id}, and create another with a new key",
  ]) {
    expect(adviceFor({ code: "HV-9999", help })).toBeNull();
    expect(adviceFor({ code: "HV-0184", help })?.text).not.toMatch(/harvest |api|git /);
  }
  expect(adviceFor({ code: "HV-0184", help: "see GET /api/repositories" })).toMatchObject({ to: "/repositories" });
});

test("what the server advises is kept when it is meant for everyone", () => {
  expect(adviceFor({ code: "HV-0607", help: "try again in a moment" })).toEqual({ text: "Try again in a moment." });
  expect(adviceFor({ code: "HV-0602", help: "ask an admin" })).toEqual({ text: "Ask an admin." });
});

test("a task whose process was killed does not continue by itself", () => {
  expect(adviceFor({ code: "HV-0501", help: null })?.text).toBe("The work so far is saved. Retry the task.");
});

test("advice on a merge that was refused holds whatever the reason", () => {
  for (const help of [
    "merge it yourself and resolve the conflict: git merge harvest/x",
    "commit them first: git commit -a",
    "go to one first: git switch main, then harvest task apply 123",
  ]) {
    expect(adviceFor({ code: "HV-0162", help })).toEqual({ text: "Nothing was merged. Resolve this in the repository itself, then try again." });
  }
});

test("an agent that is not installed leads to those that are", () => {
  const help = "install it, or use another: harvest agent list; --agent builtin is always there";
  expect(adviceFor({ code: "HV-0123", help })).toMatchObject({ to: "/agents" });
});
