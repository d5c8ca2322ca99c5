// What the signed-in user may do. The server decides it: `openapi.json` names the role that each operation requires. The page hides what
// would only be refused.
import { useQuery } from "@tanstack/react-query";
import { queries } from "./queries";
import type { SchemaMe, SchemaProject, SchemaRole } from "./schema";

/** `everywhere`: an admin of the whole installation, not only of some projects. */
export type Needs = "member" | "admin" | "everywhere";

const RANK: Record<SchemaRole, number> = { viewer: 0, member: 1, admin: 2 };
const ROLES: SchemaRole[] = ["viewer", "member", "admin"];

type Rights = Pick<SchemaMe, "role" | "projects" | "roles">;

/** Without a project: whether the role suffices in at least one. */
export function may(me: Rights | null | undefined, needs: Needs, project?: string): boolean {
  if (!me) return false;
  if (needs === "everywhere") return me.role === "admin" && !me.projects;
  const role = project !== undefined && me.projects ? me.roles?.[project] : me.role;
  return role !== undefined && RANK[role] >= RANK[needs];
}

/** The same for something of a repository: the role in its project counts. */
export function mayIn(me: Rights | null | undefined, needs: Needs, repository: string, projects: Pick<SchemaProject, "name" | "repositories">[]): boolean {
  const own = me?.projects ? projects.filter((one) => one.repositories.includes(repository)) : [];
  return own.length === 0 ? may(me, needs) : own.some((one) => may(me, needs, one.name));
}

/** The roles that a token may get from them: none above their own. */
export function rolesUpTo(me: Rights | null | undefined): SchemaRole[] {
  return me ? ROLES.filter((role) => RANK[role] <= RANK[me.role]) : [];
}

export function useMay(needs: Needs, project?: string): boolean {
  const me = useQuery(queries.me);
  return may(me.data, needs, project);
}

export function useMayIn(needs: Needs, repository: string): boolean {
  const me = useQuery(queries.me);
  const projects = useQuery({ ...queries.projects, enabled: Boolean(me.data?.projects) });
  return mayIn(me.data, needs, repository, projects.data?.items ?? []);
}
