import type { IconName } from "./ui/icons";

export interface NavItem {
  name: string;
  to:
    | "/tasks"
    | "/approvals"
    | "/projects"
    | "/queue"
    | "/repositories"
    | "/agents"
    | "/credentials"
    | "/tokens"
    | "/schedules"
    | "/templates"
    | "/convoys"
    | "/statistics"
    | "/audit"
    | "/api/docs";
  icon: IconName;
  /** Behind `g`. */
  key: string;
  count?: true;
}

export const NAV: { name: string; items: NavItem[] }[] = [
  {
    name: "Work",
    items: [
      { name: "Tasks", to: "/tasks", icon: "tasks", key: "t" },
      { name: "Approvals", to: "/approvals", icon: "approve", key: "p", count: true },
      { name: "Convoys", to: "/convoys", icon: "convoy", key: "v" },
      { name: "Schedules", to: "/schedules", icon: "schedule", key: "s" },
      { name: "Templates", to: "/templates", icon: "copy", key: "m" },
      { name: "Queue and workers", to: "/queue", icon: "queue", key: "q" },
      { name: "Statistics", to: "/statistics", icon: "chart", key: "i" },
    ],
  },
  {
    name: "Set up",
    items: [
      { name: "Repositories", to: "/repositories", icon: "repository", key: "r" },
      { name: "Projects", to: "/projects", icon: "project", key: "j" },
      { name: "Agents", to: "/agents", icon: "agent", key: "a" },
      { name: "Credentials", to: "/credentials", icon: "key", key: "c" },
      { name: "Tokens", to: "/tokens", icon: "token", key: "k" },
      { name: "API", to: "/api/docs", icon: "tool", key: "d" },
      { name: "Audit", to: "/audit", icon: "audit", key: "u" },
    ],
  },
];
