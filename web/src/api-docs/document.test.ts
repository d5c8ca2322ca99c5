import { expect, test } from "vitest";
import committed from "../../../openapi.json";
import { addressOf, curlOf, exampleOf, operations, typeOf, type ApiDocument } from "./document";

const document = committed as unknown as ApiDocument;
const all = operations(document);
const find = (id: string) => {
  const found = all.find((one) => one.id === id);
  if (!found) throw new Error(id);
  return found;
};

test("every operation of the committed document is read, with what it takes and answers", () => {
  const count = Object.values(document.paths).flatMap((item) => Object.keys(item).filter((key) => key !== "parameters")).length;
  expect(all).toHaveLength(count);
  expect(all.filter((one) => !one.summary || one.answers.length === 0)).toEqual([]);
  expect(find("task.create")).toMatchObject({ method: "POST", path: "/api/tasks", tag: "tasks", needs: ["member"] });
});

test("an example of a body has what is required, and examples of the document where it has some", () => {
  const { body } = find("task.create");
  expect(body && exampleOf(body, document, false)).toEqual({ prompt: "Make the failing test pass", repository: "shop" });
  for (const { body } of all) if (body) expect(() => JSON.stringify(exampleOf(body, document))).not.toThrow();
  expect(typeOf({ type: ["array", "null"], items: { type: "string" } }, document)).toBe("array of string or null");
});

test("addresses and commands are made of what was filled in, quoted", () => {
  const list = find("task.list");
  expect(addressOf(list, { q: "a b&c", limit: "" })).toBe("/api/tasks?q=a+b%26c");
  expect(addressOf(find("task.get"), { id: "a/b" })).toBe("/api/tasks/a%2Fb");
  expect(curlOf(list, "http://h/api/tasks", {}, `{"a":"it's"}`)).toContain(`--data '{"a":"it'\\''s"}'`);
});
