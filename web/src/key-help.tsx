import { NAV } from "./nav";
import { Dialog, Key } from "./ui/parts";

const KEYS: [string[], string][] = [
  [["Ctrl", "K"], "Search and commands"],
  [["C"], "New task"],
  [["/"], "Search this list"],
  [["J"], "Next item"],
  [["K"], "Previous item"],
  [["Enter"], "Open"],
  [["R"], "Write a message in the session; Escape leaves the box"],
  [["1 – 7"], "Session tabs"],
  [["End"], "Jump to the latest activity and follow it"],
  [["?"], "Keyboard shortcuts"],
];

export default function KeyHelp({ onClose }: { onClose: () => void }) {
  const pages = NAV.flatMap((group) => group.items).map((item): [string[], string] => [["G", item.key.toUpperCase()], item.name]);
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="grid gap-x-6 gap-y-1.5 p-4 sm:grid-cols-2">
        {[...KEYS, ...pages].map(([keys, what]) => (
          <div key={what} className="flex items-center justify-between gap-3">
            <dt>{what}</dt>
            <dd className="flex gap-1">
              {keys.map((key) => (
                <Key key={key}>{key}</Key>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
