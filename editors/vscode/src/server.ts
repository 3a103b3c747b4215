// Which program is started as the server. Pure.
import { posix, win32 } from "node:path";

/** Where a server may be. */
export interface Places {
  /** The user's setting; never a workspace's. */
  readonly setting: string | undefined;
  /** The directory of the extension. */
  readonly extension: string;
  /** The variable `PATH`. */
  readonly path: string | undefined;
  readonly platform: NodeJS.Platform;
  /** Folders whose files must not be started. */
  readonly workspaces: readonly string[];
  /** Whether there is a program of that path. */
  readonly isProgram: (path: string) => boolean;
}

/** A program, or a sentence that says what to do. */
export type Found = { readonly program: string } | { readonly problem: string };

/** Finds the server: the setting, what the extension brings, `PATH`. Nothing inside of a workspace is taken. */
export function findServer(places: Places): Found {
  const path = places.platform === "win32" ? win32 : posix;
  const name = places.platform === "win32" ? "roo-lsp.exe" : "roo-lsp";
  const inWorkspace = (file: string): boolean =>
    places.workspaces.some((folder) => {
      const way = path.relative(folder, file);
      return way === "" || (!path.isAbsolute(way) && way.split(path.sep)[0] !== "..");
    });

  const setting = places.setting?.trim();
  if (setting) {
    if (!path.isAbsolute(setting)) return { problem: `roo.server.path must be an absolute path; it is "${setting}".` };
    if (!places.isProgram(setting)) return { problem: `roo.server.path names no program: ${setting}` };
    return { program: setting };
  }
  const bundled = path.join(places.extension, "server", name);
  if (places.isProgram(bundled)) return { program: bundled };
  for (const directory of places.path?.split(path.delimiter) ?? []) {
    // An empty or relative entry of PATH means the current directory, which may be a workspace.
    if (!path.isAbsolute(directory)) continue;
    const program = path.join(directory, name);
    if (!inWorkspace(program) && places.isProgram(program)) return { program };
  }
  return { problem: "roo-lsp was not found. Install it, or set roo.server.path to its absolute path." };
}
