// What people say about events and changed lines. Agents do not read it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { createContext, useContext, useMemo, useState, type Dispatch, type ReactNode, type SetStateAction, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { useMayIn } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaComment, SchemaCommentPlace, SchemaSessionDetail } from "../api/schema";
import { firstLine } from "../text/harmless";
import { Prose } from "../text/show";
import { Button, Trouble } from "../ui/parts";
import { ago, exact, useNow } from "../ui/time";
import { Face } from "./people";

/** An event or a line, as the key of what is said about it. */
export function keyOf(place: SchemaCommentPlace): string {
  return place.kind === "event" ? `event ${place.seq}` : `${place.side} ${place.line} ${place.path}`;
}

interface Said {
  session: string;
  repository: string;
  by: Map<string, SchemaComment[]>;
  /** Where someone is about to say something. */
  open: string | null;
  setOpen: Dispatch<SetStateAction<string | null>>;
}

const Said = createContext<Said>({ session: "", repository: "", by: new Map(), open: null, setOpen: () => {} });

export function CommentsOf({ session: of, children }: { session: SchemaSessionDetail; children: ReactNode }) {
  const { id: session } = of;
  const { repository } = of.task;
  const comments = useQuery(queries.comments(session));
  const [open, setOpen] = useState<string | null>(null);
  const by = useMemo(() => {
    const groups = new Map<string, SchemaComment[]>();
    for (const one of comments.data?.items ?? []) groups.set(keyOf(one.about), [...(groups.get(keyOf(one.about)) ?? []), one]);
    return groups;
  }, [comments.data]);
  const value = useMemo(() => ({ session, repository, by, open, setOpen }), [session, repository, by, open]);
  return <Said.Provider value={value}>{children}</Said.Provider>;
}

export function useSaid(): Said {
  return useContext(Said);
}

/** What was said about a place, and the form for more while it is open. */
export function Thread({ about }: { about: SchemaCommentPlace }) {
  const { by, open } = useSaid();
  const key = keyOf(about);
  const said = by.get(key) ?? [];
  // Most have none, and nothing runs for them.
  return said.length > 0 || open === key ? <Spoken about={about} said={said} /> : null;
}

function Spoken({ about, said }: { about: SchemaCommentPlace; said: SchemaComment[] }) {
  const { session, open, setOpen } = useSaid();
  const now = useNow();
  const key = keyOf(about);
  // Someone may have gone on to another line before the answer came.
  const close = () => setOpen((now) => (now === key ? null : now));
  return (
    <div className="my-1.5 max-w-3xl rounded-lg border border-line bg-side p-2 font-sans text-[13px] whitespace-normal" role="group" aria-label="Comments">
      <ul className="flex flex-col gap-2">
        {said.map((one) => (
          <li key={one.id} className="flex gap-2">
            <Face name={one.author} />
            <div className="min-w-0 flex-1">
              <p className="flex items-center gap-2">
                <span className="font-semibold">{firstLine(one.author, 60)}</span>
                <time dateTime={one.at} title={exact(one.at)} className="text-xs text-dim">
                  {ago(one.at, now)}
                </time>
                <Remove comment={one} />
              </p>
              <Prose text={one.text} />
            </div>
          </li>
        ))}
      </ul>
      {open === key ? (
        <Say session={session} about={about} onDone={close} />
      ) : (
        <Button look="quiet" className="mt-1" onClick={() => setOpen(key)}>
          Reply
        </Button>
      )}
    </div>
  );
}

function Remove({ comment }: { comment: SchemaComment }) {
  const { repository } = useSaid();
  const me = useQuery(queries.me);
  const member = useMayIn("member", repository);
  const admin = useMayIn("admin", repository);
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/comments/{id}", { params: { path: { id: comment.id } } })) });
  if (!(member && comment.author === me.data?.user) && !admin) return null;
  return <Button look="quiet" icon="trash" label="Remove comment" className="ml-auto !size-6" disabled={remove.isPending} onClick={() => remove.mutate()} />;
}

function Say({ session, about, onDone }: { session: string; about: SchemaCommentPlace; onDone: () => void }) {
  const [text, setText] = useState("");
  const say = useMutation({
    mutationFn: () => ok(api.POST("/api/sessions/{id}/comments", { params: { path: { id: session } }, body: { about, text } })),
    onSuccess: onDone,
  });
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    if (text.trim() && !say.isPending) say.mutate();
  };
  return (
    <form onSubmit={send} className="mt-1 flex flex-col gap-2">
      <textarea
        autoFocus
        rows={2}
        required
        maxLength={10_000}
        value={text}
        onChange={(event) => setText(event.target.value)}
        aria-label="Comment"
        placeholder="Visible to people, not to the agent"
        className="field"
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
          else if (event.key === "Escape") onDone();
        }}
      />
      {say.isError && <Trouble error={say.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="primary" type="submit" disabled={!text.trim() || say.isPending}>
          Comment
        </Button>
      </div>
    </form>
  );
}
