export type Theme = "system" | "light" | "dark";

const KEY = "harvest-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function setTheme(value: Theme) {
  if (value === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, value);
  apply();
}

export function isDark(): boolean {
  return theme() === "dark" || (theme() === "system" && dark.matches);
}

export function toggleTheme() {
  setTheme(isDark() ? "light" : "dark");
}

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  dispatchEvent(new Event("harvest-theme"));
}

dark.addEventListener("change", apply);
apply();
