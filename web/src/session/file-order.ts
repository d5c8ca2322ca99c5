/** As the tree shows them: in each folder, its folders come before its files. */
export function byTree(one: string, other: string): number {
  const [mine, theirs] = [one.split("/"), other.split("/")];
  const fork = mine.findIndex((part, index) => part !== theirs[index]);
  if (fork < 0) return mine.length - theirs.length;
  const [isFile, otherIsFile] = [fork === mine.length - 1, fork === theirs.length - 1];
  if (isFile !== otherIsFile) return isFile ? 1 : -1;
  return (mine[fork] ?? "") < (theirs[fork] ?? "") ? -1 : 1;
}
