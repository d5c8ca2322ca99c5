// Writes to the clipboard. Browsers offer it to pages on secure addresses only; elsewhere the old way has to do.

/** Whether the text is on the clipboard. */
export async function copy(text: string): Promise<boolean> {
  try {
    // Absent on addresses that are not secure.
    await (navigator.clipboard as Clipboard | undefined)?.writeText(text);
    if ("clipboard" in navigator) return true;
  } catch {
    // The person or the browser does not allow it.
  }
  return copySelected(text);
}

function copySelected(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.style.position = "fixed";
  // What is behind an open dialog cannot be selected.
  const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  place.append(field);
  field.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- there is no other way without a secure address
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
