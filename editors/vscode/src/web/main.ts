// The chat as a page in a browser: the view of the extension with its own controller, and around it what an editor would bring.
import { listen, tell } from "./vscode-api.ts";
import "../webview/page.ts";
import * as vscode from "./vscode.ts";
import type { FromPage, ToPage } from "../chat/messages.ts";
import { Controller, SHOWN, type Parts, type Server } from "../controller.ts";
import { Decisions } from "../decisions.ts";
import { inWords } from "../failures.ts";
import { Startup } from "../startup.ts";
import { Store } from "../store.ts";
import { h } from "../webview/dom.ts";
import { WebConnection } from "./connection.ts";
import { notify, noticesElement, showText } from "./dialogs.ts";
import { Panel } from "./panel.ts";

const TOKEN = "roo.token";
const KEPT = "roo.kept.";

/** The address has the token behind `#`, which no server sees. It is kept for this tab alone, and not in its history. */
function takeAddress(): { secret: string; task: string | undefined } {
  const given = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  const secret = given.get("token") ?? sessionStorage.getItem(TOKEN) ?? "";
  return { secret, task: given.get("task") ?? undefined };
}

const { secret, task } = takeAddress();
const store = new Store((taskId, afterSeq) => connection.request("roo/task/attach", { taskId, afterSeq }));
const startup = new Startup();
startup.begin();

const shown = (error: unknown): void => void notify("error", `Roo: ${inWords(error)}`, []);

const connection = new WebConnection(secret, (uri) => vscode.Uri.parse(uri) as unknown as ReturnType<Server["document"]>, {
  event: (params) => store.take(params),
  message: (type, text) => void notify(type === 1 ? "error" : type === 2 ? "warning" : "info", text, []),
  settingsChanged: () => void controller.settingsChanged().catch(shown),
  ready: ({ token, folders }) => {
    sessionStorage.setItem(TOKEN, token);
    vscode.setFolders(folders);
    void begin().catch(shown);
  },
  gone: (problem) => {
    controller.disconnected(problem);
    startup.end();
  },
});

async function begin(): Promise<void> {
  try {
    await controller.connected();
  } finally {
    startup.end();
  }
}

const nobody = new vscode.EventEmitter<never>();
const parts: Parts = {
  // Typed as the extension's; the bundle has the page's own `vscode` in all of them.
  context: {
    workspaceState: {
      keys: () => [],
      get: <T>(key: string): T | undefined => JSON.parse(sessionStorage.getItem(KEPT + key) ?? "null") ?? undefined,
      update: async (key: string, value: unknown) => {
        if (value === undefined) sessionStorage.removeItem(KEPT + key);
        else sessionStorage.setItem(KEPT + key, JSON.stringify(value));
      },
    } as Parts["context"]["workspaceState"],
  },
  store,
  startup,
  decisions: new Decisions(),
  connection: () => (connection.isRunning ? connection : undefined),
  restart: async () => {},
  editor: {
    openLink: async (href) => {
      if (/^https?:\/\//i.test(href)) await vscode.env.openExternal(vscode.Uri.parse(href));
      else void notify("info", `Roo: open ${href} in your editor.`, []);
    },
    insert: (text) => vscode.env.clipboard.writeText(text),
    files: async () => [],
  },
  log: { warn: (text: string) => console.warn(text) } as Parts["log"],
  review: {
    open: async (approval) => showText(approval.title, approval.subject),
    close: () => {},
    onDidWantEdit: nobody.event as unknown as Parts["review"]["onDidWantEdit"],
  },
  previews: {
    close: async () => {},
    compare: async (title, files) => showText(title, files.map(({ uri, before, after }) => `${vscode.workspace.asRelativePath(vscode.Uri.parse(uri))}\n\nBefore:\n${before ?? "(no file)"}\n\nAfter:\n${after ?? "(no file)"}`).join("\n\n")),
  },
  copies: {
    open: async (taskId) => void notify("info", `Roo: read it with roo-lsp tasks export ${taskId}.`, []),
  },
  setUpModel: async () => {
    void notify("info", "Roo: set up a model in your editor, or with roo-lsp setup in a terminal. Keys are not entered in a browser.", []);
    return undefined;
  },
};
const controller = new Controller(parts);
// What the address names is shown first, as what was shown before.
if (task !== undefined) void parts.context.workspaceState.update(SHOWN, task);

/** What only an editor can do, in other words; all else is the controller's. */
async function respond(message: FromPage): Promise<void> {
  switch (message.type) {
    case "trust":
      return void notify("info", "Roo: trust the workspace in your editor, or with roo-lsp trust in a terminal.", []);
    case "settings":
    case "rules":
      return panel.show("settings");
    default:
      return controller.respond(message);
  }
}

/** The settings are shown, and changed elsewhere: see the panel. */
const forPage = (message: ToPage): ToPage => (message.type === "context" ? { ...message, context: { ...message.context, autoApprove: undefined } } : message);

const title = document.title;
controller.bind({
  post: (message) => tell(forPage(message)),
  get isVisible() {
    return true;
  },
  badge: (count) => {
    document.title = count > 0 ? `(${count}) ${title}` : title;
  },
  onDidHide: nobody.event as never,
});

const panel = new Panel({ store, server: connection, showBranch: (node) => controller.showBranch(node), failed: shown });
const button = (id: string, text: string, click: () => void): HTMLElement => h("button", { id, type: "button", click }, text);
const tools = h(
  "nav",
  { id: "tools", "aria-label": "Views" },
  button("new-task", "New task", () => void controller.begin().catch(shown)),
  button("open-history", "History", () => void controller.openHistory().catch(shown)),
  button("open-tree", "Tree", () => panel.toggle("tree")),
  button("open-trace", "Trace", () => panel.toggle("timeline")),
  button("open-settings", "Settings", () => panel.toggle("settings")),
);
document.body.prepend(tools);
document.body.append(panel.element, noticesElement());

// The keys of the extension, as far as browsers leave them.
document.addEventListener("keydown", (event) => {
  const isCommand = event.ctrlKey || event.metaKey;
  const isIn = (selector: string): boolean => document.querySelector(selector)?.contains(document.activeElement) === true;
  const run = (action: () => Promise<void>): void => {
    event.preventDefault();
    void action().catch(shown);
  };
  if (isCommand && event.shiftKey && event.key === "Enter") run(() => controller.decide(undefined, "allow_once"));
  else if (isCommand && event.shiftKey && event.key === "Backspace") run(() => controller.decide(undefined, "reject_once"));
  else if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) run(() => controller.moveApproval(event.key === "ArrowDown" ? 1 : -1));
  else if (event.shiftKey && event.key === "Escape" && !isIn("dialog") && store.shown) run(() => respond({ type: "cancel", taskId: store.shown?.rootId ?? "" }));
});

// A phone that was put away has lost its connection.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && secret !== "") connection.connect();
});

listen((message) => void respond(message).catch(shown));
if (secret === "") {
  controller.disconnected("This address lets nobody in: open the page from your editor (“Roo: open in browser”), or use the address that roo-lsp web prints.");
  startup.end();
} else {
  connection.connect();
}
