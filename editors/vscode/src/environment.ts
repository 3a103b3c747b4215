// The environment of a server whose daemon other programs of the user share. Pure.
import { delimiter, isAbsolute, relative, sep } from "node:path";

/** Variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables without what VS Code has added of itself: a program on the `PATH` and a browser, in a remote window. There is a
 * daemon for each environment, so what differs from a terminal's would keep this window from sharing its daemon.
 */
export function withoutEditor(environment: Environment, editor: string): Environment {
  const isOfEditor = (path: string): boolean => {
    const way = relative(editor, path);
    return isAbsolute(path) && way !== "" && !isAbsolute(way) && way.split(sep)[0] !== "..";
  };
  const { PATH: path, BROWSER: browser, ...others } = environment;
  return {
    ...others,
    ...(path !== undefined && { PATH: path.split(delimiter).filter((one) => !isOfEditor(one)).join(delimiter) }),
    ...(browser !== undefined && !isOfEditor(browser) && { BROWSER: browser }),
  };
}

/** What becomes of running tasks when the server is started with other variables, in a sentence. */
export function afterRestart(sharesDaemon: boolean): string {
  return sharesDaemon
    ? "Running tasks go on in the earlier daemon, where “roo-lsp attach” reaches them. After “roo-lsp daemon stop” they can be resumed here."
    : "Running tasks can be resumed.";
}
