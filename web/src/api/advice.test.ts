import { expect, test } from "vitest";
import { adviceFor } from "./advice";

test("advice for people in a browser names no command and no address of the API", () => {
  for (const help of [
    "see GET /api/repositories",
    "`harvest repo build` makes its first snapshot",
    "look at it first: harvest task diff 123; then harvest task apply 123 --force",
    "send the ETag of GET as If-Match",
    "commit them first: git commit -a",
  ]) {
    expect(adviceFor({ code: "HV-0999", help })).toBeNull();
    expect(adviceFor({ code: "HV-0184", help })?.text).not.toMatch(/harvest |api|git /);
  }
  expect(adviceFor({ code: "HV-0184", help: "see GET /api/repositories" })).toMatchObject({ to: "/repositories" });
});

test("what the server advises is kept when it is meant for everyone", () => {
  expect(adviceFor({ code: "HV-0607", help: "try again in a moment" })).toEqual({ text: "Try again in a moment." });
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
