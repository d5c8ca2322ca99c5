import { describe, expect, it } from "vitest";
import { clamp, firstLine, harmless, reason } from "./harmless";

describe("a stranger's text", () => {
  it("loses colours and cursor moves, and keeps its words", () => {
    expect(harmless("\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007 \u001b[2J\u001b[H.")).toBe("red link .");
  });

  it("shows control characters as signs", () => {
    expect(harmless("a\u0000b\u0007c\u001bd\u007f\re")).toBe("a␀b␇c␛d␡␍e");
  });

  it("cannot turn around or hide what follows", () => {
    expect(harmless("if (admin\u202e) {\u2066 // \u200bno")).toBe("if (admin⟨U+202E⟩) {⟨U+2066⟩ // ⟨U+200B⟩no");
    expect(harmless("a\u{e0041}b")).toBe("a⟨U+E0041⟩b");
  });

  it("keeps markup as the text it is, and words of every language", () => {
    const text = "<img src=x onerror=alert(1)> שלום مرحبا 你好\n\ttab";
    expect(harmless(text)).toBe(text);
  });

  it("does not take long for what would never end", () => {
    const began = performance.now();
    harmless("\u001b]".repeat(20_000) + "x".repeat(1_000_000));
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe("clamping", () => {
  it("cuts enormous lines and says how much is missing", () => {
    const cut = clamp("x".repeat(1_000_000), 10, 100);
    expect(cut.text).toHaveLength(101);
    expect(cut.hiddenCharacters).toBe(999_900);
  });

  it("counts the lines it leaves out", () => {
    expect(clamp("1\n2\n3\n4\n5\n", 2)).toMatchObject({ text: "1\n2", hiddenLines: 3 });
    expect(clamp("1\n2", 2)).toEqual({ text: "1\n2", hiddenLines: 0, hiddenCharacters: 0 });
  });

  it("keeps the lines of a reason", () => {
    expect(reason("exited with code 1; the last lines it printed:\n\u001b[1mone\u001b[0m\ntwo\n")).toBe(
      "exited with code 1; the last lines it printed:\none\ntwo",
    );
  });

  it("makes one line for lists", () => {
    expect(firstLine("\n  Mend the \u001b[1mtest\u001b[0m\nand more")).toBe("Mend the test");
  });
});
