import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { queries } from "../api/queries";
import { Sheaf } from "../ui/icons";
import { Button, Code } from "../ui/parts";

/** Of the address that was opened; the router has its own by the time this is shown. */
const opened = new URLSearchParams(location.search);
const used = opened.get("link") === "used";
/** Why GitHub did not sign someone in, by the server's word for it. */
const WHY_NOT: Record<string, string> = {
  not_member:
    "Your GitHub account is not in any of the organizations and teams that can sign in here. Ask an admin of this server. If the account is a member, grant Harvest access to the organization when GitHub asks during sign-in.",
  another_account:
    "Your GitHub name belonged to someone else when it was last used here. Ask an admin of this server to remove the “sign-in” credential of that name.",
  incomplete: "Sign-in failed: it was not completed at GitHub, or took too long. Try again.",
  failed: "Sign-in failed: GitHub could not be reached. Try again in a moment.",
};
const whyNot = WHY_NOT[opened.get("sign_in") ?? ""];

export function SignedOut() {
  const ways = useQuery(queries.ways);
  const github = ways.data?.github;
  useEffect(() => {
    document.title = "Signed out · Harvest";
  }, []);
  return (
    <main className="flex min-h-full items-center justify-center bg-side p-4">
      <div className="card w-full max-w-md p-6 shadow-sm">
        <div className="mb-4 flex items-center gap-2">
          <Sheaf size={24} />
          <h1 className="text-base font-semibold">You are signed out</h1>
        </div>
        {used && (
          <p role="alert" className="mb-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
            That link has already been used or has expired. Each link works once, within an hour.
          </p>
        )}
        {whyNot && (
          <p role="alert" className="mb-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
            {whyNot}
          </p>
        )}
        {github && (
          <>
            <a href={github} className="mb-4 flex h-9 items-center justify-center rounded-md bg-accent px-3 font-medium text-on-accent hover:opacity-90">
              Sign in with GitHub
            </a>
            <p className="mb-4 flex items-center gap-3 text-xs text-dim">
              <span className="h-px flex-1 bg-line" aria-hidden />
              or with a link
              <span className="h-px flex-1 bg-line" aria-hidden />
            </p>
          </>
        )}
        <p className="mb-2 text-dim">
          {github ? "A link works once." : "Harvest signs you in with a one-time link."} On the machine where it runs, create one and open it here:
        </p>
        <pre className="mb-4 overflow-x-auto rounded-md border border-line bg-side px-3 py-2 font-mono text-xs" tabIndex={0}>
          harvest token link
        </pre>
        <p className="mb-4 text-dim">
          <Code>harvest serve</Code> also prints one when it starts. If someone else runs the server, ask them for a link.
        </p>
        <Button look={github ? "plain" : "primary"} onClick={() => location.assign("/")}>
          I have opened it
        </Button>
      </div>
    </main>
  );
}
