// Signing in leaves half of the session's secret behind `#`. The cookie, which browsers send to every port of this host, opens
// nothing without it; storage belongs to this origin alone.
const KEY = "harvest.proof";
const inBrowser = typeof window !== "undefined" && typeof localStorage !== "undefined";

const given = inBrowser ? new URLSearchParams(location.hash.slice(1)).get("proof") : null;
if (given) {
  localStorage.setItem(KEY, given);
  history.replaceState(history.state, "", location.pathname + location.search);
}

/** What shows that a request comes from this page. */
export function proof(): string | null {
  return inBrowser ? localStorage.getItem(KEY) : null;
}

/** The address of a stream, which cannot have headers. */
export function proved(path: string): string {
  const known = proof();
  return known ? `${path}${path.includes("?") ? "&" : "?"}proof=${encodeURIComponent(known)}` : path;
}

/** After signing out, the proof opens nothing any more. */
export function forgetProof() {
  if (inBrowser) localStorage.removeItem(KEY);
}
