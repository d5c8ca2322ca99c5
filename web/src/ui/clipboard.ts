// Writes to the clipboard, which browsers offer to pages on secure addresses only.

export function copy(text: string): void {
  if ("clipboard" in navigator) void navigator.clipboard.writeText(text);
}
