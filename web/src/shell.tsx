// Everything around a page: who is signed in, where one can go, and what the keyboard does.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useState } from "react";
import { api } from "./api/client";
import { forgetSession } from "./api/forget-session";
import { listen } from "./api/live";
import { useMay } from "./api/may";
import { forgetProof } from "./api/proof";
import { queries } from "./api/queries";
import { useKeys } from "./keyboard";
import { NAV, type NavItem } from "./nav";
import { SignedOut } from "./pages/signed-out";
import { Icon, Sheaf } from "./ui/icons";
import { Button, Dialog, Key, Trouble, Waiting } from "./ui/parts";
import { toggleTheme } from "./ui/theme";

const Palette = lazy(() => import("./palette"));
const KeyHelp = lazy(() => import("./key-help"));

export function Shell() {
  const me = useQuery(queries.me);
  const isPublic = useRouterState({ select: (state) => state.location.pathname === "/api/docs" });
  if (me.isPending) return <Waiting what="your account" />;
  if (me.isError)
    return (
      <main className="mx-auto max-w-lg p-6">
        <Trouble error={me.error} again={() => void me.refetch()} />
      </main>
    );
  // The description of the API is for everyone; the rest needs someone who is signed in.
  if (!me.data && isPublic)
    return (
      <main id="main" tabIndex={-1} className="h-full outline-none">
        <Outlet />
      </main>
    );
  if (!me.data) return <SignedOut />;
  return <SignedIn user={me.data.user} role={me.data.role} version={me.data.version} />;
}

function SignedIn({ user, role, version }: { user: string; role: string; version: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const [open, setOpen] = useState<"palette" | "keys" | "menu" | null>(null);
  const close = useCallback(() => setOpen(null), []);
  const mayCreate = useMay("member");

  useEffect(() => listen(client), [client]);
  // Whatever was opened on one page is closed on the next.
  const [openedAt, setOpenedAt] = useState(path);
  if (openedAt !== path) {
    setOpenedAt(path);
    setOpen(null);
  }
  useKeys({
    palette: () => setOpen((now) => (now === "palette" ? null : "palette")),
    help: () => setOpen("keys"),
    create: () => {
      if (mayCreate) void navigate({ to: "/tasks", search: { new: true } });
    },
    go: (to) => void navigate({ to }),
  });

  const out = async () => {
    await api.POST("/api/logout");
    forgetProof();
    forgetSession(client);
  };

  const side = (
    <>
      <div className="flex h-12 shrink-0 items-center gap-2 px-3">
        <Sheaf />
        <span className="mr-auto text-sm font-semibold">Harvest</span>
        <Button look="quiet" icon="search" label="Search and commands (Ctrl K)" onClick={() => setOpen("palette")} />
        {mayCreate && (
          <Button
            look="quiet"
            icon="plus"
            label="New task (C)"
            onClick={() => {
              close();
              void navigate({ to: "/tasks", search: { new: true } });
            }}
          />
        )}
      </div>
      <nav aria-label="Pages" className="flex-1 overflow-y-auto px-2 pb-4">
        {NAV.map((group) => (
          <section key={group.name} aria-label={group.name} className="mt-3 first:mt-1">
            <h2 className="px-2 pb-1 text-xs font-medium text-dim">{group.name}</h2>
            <ul>
              {group.items.map((item) => (
                <li key={item.to}>
                  <NavLink item={item} />
                </li>
              ))}
            </ul>
          </section>
        ))}
      </nav>
      <div className="flex shrink-0 items-center gap-1 border-t border-line px-3 py-2">
        <div className="mr-auto min-w-0">
          <p className="truncate font-medium">{user}</p>
          <p className="truncate text-xs text-dim">
            {role} · {version}
          </p>
        </div>
        <Button look="quiet" icon="keyboard" label="Keyboard shortcuts (?)" onClick={() => setOpen("keys")} />
        <Button look="quiet" icon="sun" label="Switch theme" onClick={toggleTheme} />
        <Button look="quiet" icon="out" label="Sign out" onClick={() => void out()} />
      </div>
    </>
  );

  return (
    <div className="flex h-full flex-col lg:flex-row">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded focus:bg-raised focus:px-3 focus:py-1">
        Skip to content
      </a>
      <div className="flex h-11 shrink-0 items-center gap-2 border-b border-line bg-side px-2 lg:hidden">
        <Button look="quiet" icon="menu" label="Pages" onClick={() => setOpen("menu")} />
        <Sheaf size={18} />
        <span className="mr-auto text-sm font-semibold">Harvest</span>
        <Button look="quiet" icon="search" label="Search and commands" onClick={() => setOpen("palette")} />
        {mayCreate && <Button look="quiet" icon="plus" label="New task" onClick={() => void navigate({ to: "/tasks", search: { new: true } })} />}
      </div>
      <aside aria-label="Navigation" className="hidden w-56 shrink-0 flex-col border-r border-line bg-side lg:flex">
        {side}
      </aside>
      <main id="main" tabIndex={-1} className="min-h-0 min-w-0 flex-1 outline-none">
        <Outlet />
      </main>
      {open === "menu" && (
        <Dialog title="Pages" bare onClose={close}>
          <div className="flex max-h-[80vh] flex-col">{side}</div>
        </Dialog>
      )}
      <Suspense>
        {open === "palette" && <Palette onClose={close} />}
        {open === "keys" && <KeyHelp onClose={close} />}
      </Suspense>
    </div>
  );
}

function NavLink({ item }: { item: NavItem }) {
  return (
    <Link
      to={item.to}
      activeOptions={{ exact: false, includeSearch: false }}
      className="flex h-7 items-center gap-2 rounded-md px-2 text-dim hover:bg-hover hover:text-text"
      activeProps={{ className: "!bg-hover !text-text font-medium", "aria-current": "page" }}
    >
      <Icon name={item.icon} />
      <span className="mr-auto">{item.name}</span>
      {item.count && <Waits />}
    </Link>
  );
}

/** How many wait for a person. */
function Waits() {
  const { data } = useQuery(queries.queue);
  const count = data?.tasks.awaiting_approval ?? 0;
  return count > 0 ? <Key>{count}</Key> : null;
}
