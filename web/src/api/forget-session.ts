// The end of a session: the page shows that nobody is signed in and drops everything it has read.
import type { QueryClient } from "@tanstack/react-query";

const PUBLIC = ["me", "ways"];

/** Shows the sign-in page in place: a navigation would race with the streams that the server closes at that moment. */
export function forgetSession(client: QueryClient) {
  client.setQueryData(["me"], null);
  client.removeQueries({ predicate: (query) => !PUBLIC.includes(String(query.queryKey[0])) });
}
