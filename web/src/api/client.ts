// Every request of the page goes through here: typed by the API's own document, with the proof that the page made it.
import createClient from "openapi-fetch";
import { proof } from "./proof";
import type { paths, SchemaProblem } from "./schema";

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin" });

let onSignedOut: () => void = () => {};

export function whenSignedOut(listener: () => void) {
  onSignedOut = listener;
}

api.use({
  onRequest({ request }) {
    const known = proof();
    if (known) request.headers.set("X-Harvest-CSRF", known);
    return request;
  },
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && schemaPath !== "/api/me") onSignedOut();
    return undefined;
  },
});

/** What the server refused, in its own words. */
export class Refused extends Error {
  constructor(readonly problem: SchemaProblem) {
    super(problem.detail);
    this.name = "Refused";
  }
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer, or the problem thrown. */
export async function ok<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked.catch((cause: unknown) => {
    throw new Refused(problem(0, "The server cannot be reached", "Is it running? The page reconnects automatically.", cause));
  });
  if (response.ok) return data as T;
  if (isProblem(error)) throw new Refused(error);
  throw new Refused(problem(response.status, `The server answered ${response.status}`, "Try again, or check the server's log."));
}

export function problemOf(error: unknown): SchemaProblem {
  if (error instanceof Refused) return error.problem;
  return problem(0, error instanceof Error ? error.message : String(error), null);
}

function isProblem(value: unknown): value is SchemaProblem {
  return typeof value === "object" && value !== null && "detail" in value && "code" in value;
}

function problem(status: number, detail: string, help: string | null, cause?: unknown): SchemaProblem {
  if (cause) console.warn(cause);
  return { type: "about:blank", title: detail, status, detail, code: "", help };
}
