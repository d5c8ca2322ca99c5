// The changed files as folders, beside the diff where there is room.
import type { FileData } from "react-diff-view";
import { firstLine } from "../text/harmless";
import { Icon } from "../ui/icons";
import { anchor, pathOf } from "./changes";
import { Added, count } from "./diff-file";

interface Folder {
  folders: Map<string, Folder>;
  files: { name: string; file: FileData }[];
}

function made(files: FileData[]): Folder {
  const root: Folder = { folders: new Map(), files: [] };
  for (const file of files) {
    const parts = pathOf(file).split("/");
    const name = parts.pop() ?? "";
    let folder = root;
    for (const part of parts) {
      const next = folder.folders.get(part) ?? { folders: new Map(), files: [] };
      folder.folders.set(part, next);
      folder = next;
    }
    folder.files.push({ name, file });
  }
  return root;
}

export function FileTree({ files }: { files: FileData[] }) {
  return (
    <nav aria-label="File tree" className="sticky top-14 hidden max-h-[calc(100vh-16rem)] w-60 shrink-0 self-start overflow-auto lg:block" tabIndex={0}>
      <Level folder={made(files)} />
    </nav>
  );
}

function Level({ folder }: { folder: Folder }) {
  return (
    <ul className="flex flex-col">
      {[...folder.folders].map(([name, inner]) => {
        const [path, end] = compact(name, inner);
        return (
          <li key={name}>
            <details open>
              <summary className="flex items-center gap-1.5 rounded px-1 py-0.5 text-dim hover:bg-hover">
                <Icon name="project" size={13} />
                <span className="min-w-0 truncate text-xs" title={path}>
                  {firstLine(path, 200)}
                </span>
              </summary>
              <div className="ml-2 border-l border-line pl-1.5">
                <Level folder={end} />
              </div>
            </details>
          </li>
        );
      })}
      {folder.files.map(({ name, file }) => (
        <li key={`${file.oldPath} ${file.newPath}`}>
          <a
            href={`#${anchor(pathOf(file))}`}
            onClick={(event) => {
              event.preventDefault();
              document.getElementById(anchor(pathOf(file)))?.scrollIntoView();
            }}
            className="flex items-center gap-1.5 rounded px-1 py-0.5 hover:bg-hover"
          >
            <span className={`min-w-0 flex-1 truncate text-xs ${file.type === "delete" ? "text-dim line-through" : ""}`} title={pathOf(file)}>
              {firstLine(name, 200)}
            </span>
            <Added {...count(file)} />
          </a>
        </li>
      ))}
    </ul>
  );
}

/** Folders that hold one folder and nothing else are one line. */
function compact(name: string, folder: Folder): [string, Folder] {
  const [only] = folder.folders;
  return folder.files.length === 0 && folder.folders.size === 1 && only ? compact(`${name}/${only[0]}`, only[1]) : [name, folder];
}
