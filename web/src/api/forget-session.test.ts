import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { forgetSession } from "./forget-session";

test("nothing that was read stays in memory when a session ends", () => {
  const client = new QueryClient();
  client.setQueryData(["me"], { user: "ada" });
  client.setQueryData(["ways"], { github: null });
  client.setQueryData(["task", "qb2q"], { prompt: "Prune the pear tree" });
  client.setQueryData(["tasks", {}], { pages: [] });
  forgetSession(client);
  expect(
    client
      .getQueryCache()
      .getAll()
      .map((query) => [query.queryKey, query.state.data]),
  ).toEqual([
    [["me"], null],
    [["ways"], { github: null }],
  ]);
});
