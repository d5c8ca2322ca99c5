// Addresses of the API open with the page's half of the session's secret only, which a link cannot send.
import { proof } from "./proof";

/** Asks for what is at an address of the API, and gives it to the person as a file. */
export async function download(path: string, name: string, accept = "*/*"): Promise<void> {
  const answer = await fetch(path, { credentials: "same-origin", headers: { Accept: accept, "X-Harvest-CSRF": proof() ?? "" } });
  if (!answer.ok) throw new Error(`${name} could not be downloaded: the server answered ${answer.status}`);
  save(await answer.blob(), name);
}

/** Gives something to the person as a file. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has begun to read it by the next turn of its loop.
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
