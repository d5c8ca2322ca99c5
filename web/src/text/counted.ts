/** "1 file", "1,200 files": a number with its noun. */
export function counted(number: number, noun: string, plural = `${noun}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? noun : plural}`;
}
