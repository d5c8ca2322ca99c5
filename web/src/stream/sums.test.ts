import { expect, test } from "vitest";
import { money } from "./sums";

test("money is written as the command line writes it: with cents, and parts of a cent of small amounts", () => {
  const written = [0, 0.00001, 0.00005, 0.0042, 0.01, 0.0123, 0.09, 0.03 + 0.06, 0.1, 0.1234, 5, 1234.5].map(money);
  expect(written).toEqual(["$0.00", "<$0.0001", "$0.0001", "$0.0042", "$0.01", "$0.0123", "$0.09", "$0.09", "$0.10", "$0.12", "$5.00", "$1234.50"]);
});
