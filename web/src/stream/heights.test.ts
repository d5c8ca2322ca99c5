import { describe, expect, it } from "vitest";
import { Heights } from "./heights";

describe("heights", () => {
  it("say the same as adding them up, whatever is learnt in between", () => {
    const heights = new Heights();
    const plain: number[] = [];
    let seed = 7;
    const random = (most: number) => (seed = (seed * 48_271) % 2_147_483_647) % most;
    for (let step = 0; step < 5_000; step += 1) {
      if (plain.length === 0 || random(3) > 0) {
        const height = 1 + random(90);
        heights.push(height);
        plain.push(height);
      } else {
        const [index, height] = [random(plain.length), 1 + random(400)];
        heights.set(index, height);
        plain[index] = height;
      }
    }
    const tops = plain.map((_, index) => plain.slice(0, index).reduce((sum, one) => sum + one, 0));
    const total = plain.reduce((sum, one) => sum + one, 0);
    expect(heights.total).toBe(total);
    for (let index = 0; index < plain.length; index += 97) {
      expect(heights.top(index)).toBe(tops[index]);
      expect(heights.at(tops[index]!)).toBe(index);
      expect(heights.at(tops[index]! + plain[index]! - 1)).toBe(index);
    }
    expect(heights.at(total + 1_000)).toBe(plain.length - 1);
    expect(heights.at(0)).toBe(0);
  });
});
