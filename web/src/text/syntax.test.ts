import { expect, test } from "vitest";
import { familyOf, Scanner } from "./syntax";

const kinds = (path: string, ...lines: string[]) => {
  const family = familyOf(path);
  if (!family) return null;
  const scanner = new Scanner(family);
  return lines.map((line) =>
    scanner
      .line(line)
      .filter((piece) => piece.kind)
      .map((piece) => `${piece.kind}:${piece.text}`),
  );
};

test("words, strings, numbers and comments of common languages are told apart", () => {
  expect(kinds("a.rs", 'let x = "a // b"; // 3')).toEqual([["keyword:let", 'string:"a // b"', "comment:// 3"]]);
  expect(kinds("a.py", "return 42  # why")).toEqual([["keyword:return", "number:42", "comment:# why"]]);
  expect(kinds("a.sh", "echo $#; x='it'")).toEqual([["keyword:echo", "string:'it'"]]);
  expect(kinds("a.rs", "fn f<'a>(x: &'a str) {}")).toEqual([["keyword:fn"]]);
});

test("what a line leaves open goes on in the next", () => {
  expect(kinds("a.ts", "/* one", "two */ const x")).toEqual([["comment:/* one"], ["comment:two */", "keyword:const"]]);
  expect(kinds("a.py", '"""doc', 'more"""')).toEqual([['string:"""doc'], ['string:more"""']]);
});

test("nothing of the text is lost, and what is not known stays plain", () => {
  expect(kinds("a.unknown", "let")).toBeNull();
  const family = familyOf("a.ts");
  for (const text of ["", "`open", "'x' \"y\" /* */ 0x1F_$a", "a".repeat(500), "don't // it's"]) {
    const pieces = family ? new Scanner(family).line(text) : [];
    expect(pieces.map((piece) => piece.text).join("")).toBe(text);
  }
});
