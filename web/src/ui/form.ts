// Reads the fields of forms.

/** The text of a field; empty when the form has no such field or it holds a file. */
export function fieldText(data: FormData, name: string): string {
  const value = data.get(name);
  return typeof value === "string" ? value : "";
}
