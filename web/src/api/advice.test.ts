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
