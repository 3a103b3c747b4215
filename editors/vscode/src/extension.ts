// The extension: puts its parts together and keeps one server running.
import { accessSync, constants, statSync } from "node:fs";
import * as vscode from "vscode";
import * as editor from "./active-editor.ts";
import { ChatView } from "./chat/view.ts";
import { registerCommands, registerServerCommands } from "./commands.ts";
import { run, type RunProgram } from "./cli.ts";
import { Connection } from "./connection.ts";
import { TaskCopies } from "./copies.ts";
import { Decisions } from "./decisions.ts";
import { Controller } from "./controller.ts";
import { askCode } from "./code.ts";
import { save, tellEditor } from "./documents.ts";
import { withoutEditor } from "./environment.ts";
import { inWords } from "./failures.ts";
import { Intents } from "./intents.ts";
import { Keys } from "./keys.ts";
import { McpServers } from "./mcp.ts";
import { Previews } from "./preview.ts";
import { DiffReview } from "./review.ts";
import { findServer } from "./server.ts";
import { effectOf, initializationOptions, own, type Inspected } from "./settings.ts";
import { setUpModel } from "./setup.ts";
import { Startup } from "./startup.ts";
import { Status } from "./status.ts";
import { Store } from "./store.ts";
import { InvocationTree } from "./tree.ts";

/** What tests of the extension look at. */
export interface Api {
  readonly store: Store;
  readonly connection: () => Connection | undefined;
}

let stop: (() => Promise<void>) | undefined;

/** Called by VS Code. */
export async function activate(context: vscode.ExtensionContext): Promise<Api> {
  const log = vscode.window.createOutputChannel("Roo", { log: true });
  const keys = new Keys(context);
  const previews = new Previews();
  const decisions = new Decisions();
  const review = new DiffReview(decisions, previews);
  const startup = new Startup();
  let connection: Connection | undefined;
  let sharesDaemon = false;
  let session: vscode.Disposable | undefined;

  const store = new Store(async (taskId, afterSeq) => {
    return connection?.request("roo/task/attach", { taskId, afterSeq });
  });
  let program: RunProgram | undefined;
  const copies = new TaskCopies(() => program);
  const controller = new Controller({ context, store, previews, copies, decisions, review, startup, connection: () => connection, log, editor, setUpModel: (given) => setUpModel({ ...given, keys }), restart: () => restart() });
  const view = new ChatView(context.extensionUri, (message) => controller.respond(message));
  const tree = new InvocationTree(store);
  const intents = new Intents(async () => (connection?.isTyped ? connection.request("roo/intent/list", {}) : undefined));
  const mcp = new McpServers();
  const status = new Status(store);
  controller.bind(view);

  const fail = (problem: string): void => {
    log.error(problem);
    controller.disconnected(problem);
    status.problem(problem);
    startup.end();
  };

  const ready = async (of: Connection): Promise<void> => {
    session?.dispose();
    session = registerServerCommands(of, ownCommands(context));
    void vscode.commands.executeCommand("setContext", "roo.typed", of.isTyped);
    status.problem(undefined, of.isTyped);
    if (!of.isTyped) {
      controller.disconnected("The roo/* protocol is disabled (roo.protocol.enabled). Use the commands “Roo: …”; questions come as messages.");
      return;
    }
    session = vscode.Disposable.from(session, tellEditor(of));
    await controller.connected();
    await intents.refresh();
  };

  /** Counts starts and stops: what has waited goes on only when nothing newer has begun, so that one server runs. */
  let generation = 0;
  const start = async (): Promise<void> => {
    startup.begin();
    const mine = (generation += 1);
    const inspect = (key: string): Inspected | undefined => vscode.workspace.getConfiguration("roo").inspect(key);
    const setting = own(inspect, "server.path");
    const found = findServer({
      setting: typeof setting === "string" ? setting : undefined,
      extension: context.extensionPath,
      path: process.env["PATH"],
      platform: process.platform,
      workspaces: (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath),
      isProgram,
    });
    if ("problem" in found) {
      fail(found.problem);
      const open = "Open Settings";
      void vscode.window.showErrorMessage(`Roo: ${found.problem}`, open).then((chosen) => {
        if (chosen === open) void vscode.commands.executeCommand("workbench.action.openSettings", "roo.server.path");
      });
      return;
    }
    log.info(`Starting ${found.program}`);
    sharesDaemon = own(inspect, "server.daemon") === true;
    const args = sharesDaemon ? ["--stdio", "--daemon"] : ["--stdio"];
    const level = inspect("server.log")?.globalValue;
    const environment = {
      ...(sharesDaemon ? withoutEditor(process.env, vscode.env.appRoot) : process.env),
      ...(await keys.environment()),
      // The server has the same default. A variable more would be another environment, and so another daemon.
      ...(typeof level === "string" && { ROO_LSP_LOG: level }),
    };
    program = async (args) => run(found.program, args, await keys.environment());
    if (mine !== generation) return;
    const next: Connection = new Connection(
      { program: found.program, args, environment, initializationOptions: initializationOptions(inspect) },
      log,
      {
        event: (params) => store.take(params),
        mcpChanged: (params) => mcp.take(params),
        settingsChanged: () => {
          if (connection === next) void controller.settingsChanged().catch((error: unknown) => log.warn(inWords(error)));
        },
        save: ({ uris }) => save(uris, (uri) => next.document(uri)),
        askCode: (params) => askCode(params, next),
        starting: () => {
          if (connection === next) startup.begin();
        },
        ready: () => {
          if (connection !== next) return;
          const ended = (): void => {
            if (connection === next) startup.end();
          };
          void ready(next).then(ended, (error: unknown) => failed(inWords(error)));
        },
        gone: () => failed("The server has exited; it is restarted unless it exits too often."),
      },
    );
    // What becomes of a connection that another one has replaced says nothing about that one.
    const failed = (problem: string): void => {
      if (connection === next) fail(problem);
    };
    connection = next;
    try {
      await next.start();
    } catch (error) {
      failed(`The server can't be started: ${inWords(error)}`);
    }
  };

  stop = async () => {
    generation += 1;
    const running = connection;
    connection = undefined;
    session?.dispose();
    session = undefined;
    await running?.dispose();
  };
  const restart = async (): Promise<void> => {
    startup.begin();
    const stopping = stop?.();
    const mine = generation;
    await stopping;
    if (mine === generation) await start();
  };

  context.subscriptions.push(
    log,
    store,
    previews,
    copies,
    decisions,
    review,
    tree,
    intents,
    status,
    vscode.window.registerWebviewViewProvider(ChatView.id, view),
    vscode.window.createTreeView("roo.tree", { treeDataProvider: tree, showCollapseAll: true }),
    intents.bind(vscode.window.createTreeView("roo.intents", { treeDataProvider: intents, showCollapseAll: true })),
    // The server marks what a task has selected.
    store.onDidApply(({ event }) => {
      if (event.type === "intent.selected") void intents.refresh();
    }),
    vscode.workspace.registerTextDocumentContentProvider(Previews.scheme, previews),
    vscode.workspace.registerTextDocumentContentProvider(TaskCopies.scheme, copies),
    registerCommands({ controller, intents, keys, mcp, previews, review, log, startup, connection: () => connection, restart, sharesDaemon: () => sharesDaemon }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      const effect = effectOf((section) => change.affectsConfiguration(section));
      if (effect === "restart") void controller.restartNeeded();
      if (effect === "options") void controller.optionsChanged();
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => void controller.foldersChanged()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      if (connection?.isTyped) void controller.refresh().catch(() => {});
    }),
  );
  // Not awaited: the views are there at once, and say that the server is starting.
  void start();
  return { store, connection: () => connection };
}

/** Called by VS Code. */
export async function deactivate(): Promise<void> {
  await stop?.();
}

function ownCommands(context: vscode.ExtensionContext): string[] {
  const manifest = context.extension.packageJSON as { contributes: { commands: { command: string }[] } };
  return manifest.contributes.commands.map(({ command }) => command);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
