import { expect, test } from "vitest";
import { byTree } from "./file-order";

test("files of a diff are in the order of the tree beside it: folders first, each by name", () => {
  const paths = ["NOTES.md", "src/two.sh", "src/deep/a.rs", "a.txt", "docs/z.md", "src/deep/b/c.rs"];
  expect(paths.toSorted(byTree)).toEqual(["docs/z.md", "src/deep/b/c.rs", "src/deep/a.rs", "src/two.sh", "NOTES.md", "a.txt"]);
});
