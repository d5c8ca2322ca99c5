import { expect, test } from "vitest";
import { counted } from "./counted";

test("one of a thing is not called many", () => {
  expect([0, 1, 2].map((number) => counted(number, "file"))).toEqual(["0 files", "1 file", "2 files"]);
  expect(counted(2, "retry", "retries")).toBe("2 retries");
});
