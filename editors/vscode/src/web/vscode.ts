// What the shared modules use of VS Code's API, for a page in a browser: the bundle has this in place of `vscode`
// (scripts/web.mjs). Notifications, pickers and inputs are the page's own; what only an editor has is missing here, and a test
// compares it with what those modules name.
import { ask, choose, enter, notify, openList, showText, type ListItem } from "./dialogs.ts";

type Listener<T> = (event: T) => void;

/** Ends something. */
export class Disposable {
  readonly #end: () => void;

  constructor(end: () => void) {
    this.#end = end;
  }

  dispose(): void {
    this.#end();
  }
}

/** Tells listeners of what happens. */
export class EventEmitter<T> {
  readonly #listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>): Disposable => {
    this.#listeners.add(listener);
    return new Disposable(() => this.#listeners.delete(listener));
  };

  fire(event: T): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

/** An address. */
export class Uri {
  readonly scheme: string;
  readonly path: string;
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
    const [, scheme = "", rest = text] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(text) ?? [];
    this.scheme = scheme;
    this.path = decoded(rest.replace(/^\/\/[^/]*/, ""));
  }

  static parse(text: string): Uri {
    return new Uri(text);
  }

  toString(): string {
    return this.#text;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const ConfigurationTarget = { Global: 1 } as const;

/** The paths of the workspace folders, which the server tells. */
let folders: readonly string[] = [];

/** Knows the workspace folders from now on. */
export function setFolders(uris: readonly string[]): void {
  folders = uris.map((uri) => Uri.parse(uri).path);
}

export const workspace = {
  workspaceFolders: undefined,
  asRelativePath(uri: Uri | string): string {
    const path = typeof uri === "string" ? uri : uri.path;
    const folder = folders.find((one) => path.startsWith(`${one}/`));
    return folder === undefined ? path : path.slice(folder.length + 1);
  },
  /** The editor's own settings: a page has none. The server's are asked of the server. */
  getConfiguration: () => ({
    get: () => undefined,
    inspect: () => undefined,
  }),
};

interface MessageOptions {
  readonly modal?: boolean;
  readonly detail?: string;
}

type Level = "info" | "warning" | "error";

function message(level: Level, text: string, first?: MessageOptions | string, ...rest: string[]): Promise<string | undefined> {
  const options = typeof first === "object" ? first : {};
  const actions = typeof first === "string" ? [first, ...rest] : rest;
  return options.modal ? ask(text, options.detail ?? "", actions) : notify(level, text, actions);
}

interface PickOptions {
  readonly title?: string;
  readonly placeHolder?: string;
}

interface InputOptions {
  readonly title?: string;
  readonly prompt?: string;
  readonly value?: string;
  readonly password?: boolean;
}

/** A list that is open while it is still being filled. */
class QuickPick<T extends ListItem> {
  title = "";
  placeholder = "";
  matchOnDescription = false;
  matchOnDetail = false;
  busy = false;
  selectedItems: readonly T[] = [];
  activeItems: readonly T[] = [];
  readonly #accepted = new EventEmitter<void>();
  readonly #hidden = new EventEmitter<void>();
  readonly onDidAccept = this.#accepted.event;
  readonly onDidHide = this.#hidden.event;
  #items: readonly T[] = [];
  #list: { draw(items: readonly T[]): void; close(): void } | undefined;

  get items(): readonly T[] {
    return this.#items;
  }

  set items(items: readonly T[]) {
    this.#items = items;
    this.#list?.draw(items);
  }

  show(): void {
    this.#list = openList<T>({
      title: this.title,
      placeholder: this.placeholder,
      items: this.#items,
      chosen: (item) => {
        this.selectedItems = [item];
        this.#accepted.fire();
      },
      closed: () => this.#hidden.fire(),
    });
  }

  hide(): void {
    this.#list?.close();
  }

  dispose(): void {
    this.#accepted.dispose();
    this.#hidden.dispose();
  }
}

export const window = {
  showInformationMessage: (text: string, first?: MessageOptions | string, ...rest: string[]) => message("info", text, first, ...rest),
  showWarningMessage: (text: string, first?: MessageOptions | string, ...rest: string[]) => message("warning", text, first, ...rest),
  showErrorMessage: (text: string, first?: MessageOptions | string, ...rest: string[]) => message("error", text, first, ...rest),
  async showQuickPick<T extends string | ListItem>(items: readonly T[], options: PickOptions = {}): Promise<T | undefined> {
    const rows = items.map((item): ListItem & { readonly value: T } => (typeof item === "string" ? { label: item, value: item } : { ...item, value: item }));
    return (await choose(options.title ?? "", options.placeHolder ?? "", rows))?.value;
  },
  showInputBox: (options: InputOptions = {}) => enter(options),
  createQuickPick: <T extends ListItem>() => new QuickPick<T>(),
};

/** The commands that the shared modules run. */
const registered = new Map<string, (argument?: unknown) => unknown>();

export const commands = {
  registerCommand(name: string, run: (argument?: unknown) => unknown): Disposable {
    registered.set(name, run);
    return new Disposable(() => registered.delete(name));
  },
  /** Keys of menus and the place of the view mean nothing here. */
  async executeCommand(name: string, argument?: unknown): Promise<unknown> {
    return registered.get(name)?.(argument);
  },
};

export const env = {
  clipboard: {
    async writeText(text: string): Promise<void> {
      // A page that isn't of this machine may have no clipboard.
      await navigator.clipboard.writeText(text).catch(() => showText("Copy this", text));
    },
  },
  async openExternal(uri: Uri): Promise<boolean> {
    open(uri.toString(), "_blank", "noopener,noreferrer");
    return true;
  },
};
