import { describe, expect, test, vi } from "vitest";
import { Refused } from "./client";
import { wholeId } from "./short-id";

const WHOLE = "qb2q9x2c4v6b8n0q";
const finds = (...ids: string[]) => vi.fn(() => Promise.resolve({ items: ids.map((id) => ({ id })) }));

describe("a link with a short ID", () => {
  test("leads to the one task whose ID begins like it", async () => {
    const find = finds(WHOLE);
    expect(await wholeId("task", "qb2q", find)).toBe(WHOLE);
    expect(find).toHaveBeenCalledWith("qb2q");
  });

  test("is not looked up when the ID is whole", async () => {
    const find = finds();
    expect(await wholeId("task", WHOLE, find)).toBe(WHOLE);
    expect(find).not.toHaveBeenCalled();
  });

  test("that belongs to nothing is refused in the words of the page", async () => {
    await expect(wholeId("session", "zzzz", finds())).rejects.toMatchObject({
      problem: { code: "HV-0154", detail: "No session has an ID that begins with “zzzz”" },
    });
  });

  test("that cannot be an ID is not looked up", async () => {
    const find = finds(WHOLE);
    await expect(wholeId("task", "qb2q/../x", find)).rejects.toBeInstanceOf(Refused);
    await expect(wholeId("task", `${WHOLE}0`, find)).rejects.toMatchObject({ problem: { code: "HV-0151" } });
    expect(find).not.toHaveBeenCalled();
  });

  test("that several tasks share is refused by the server", async () => {
    const refusal = new Error("`q` matches 2 tasks");
    await expect(wholeId("task", "q", () => Promise.reject(refusal))).rejects.toBe(refusal);
  });
});
