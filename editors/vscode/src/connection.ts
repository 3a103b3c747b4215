// The language client: starts the server, and speaks `roo/*` with its types.
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  State,
  type Executable,
  type LanguageClientOptions,
  type ServerCapabilities,
  type StaticFeature,
} from "vscode-languageclient/node";
import type { Environment } from "./environment.ts";
import type { ClientNotifications, EventParams, McpListResult, Requests, ServerRequests } from "./protocol.ts";

/** How a server is started. */
export interface Start {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment: Environment;
  readonly initializationOptions: unknown;
}

/** What the server may ask of this client. */
export interface Handlers {
  readonly event: (params: EventParams) => void;
  readonly save: (params: ServerRequests["roo/document/save"]["params"]) => Promise<ServerRequests["roo/document/save"]["result"]>;
  readonly askCode: (params: ServerRequests["roo/code/ask"]["params"]) => Promise<ServerRequests["roo/code/ask"]["result"]>;
  /** The MCP servers have changed. */
  readonly mcpChanged: (params: McpListResult) => void;
  /** Other settings count from now on. */
  readonly settingsChanged: () => void;
  /** The server runs; also after it was restarted. */
  readonly ready: () => void;
  /** The server doesn't run any more. */
  readonly gone: () => void;
  /** The server is started, also after it has ended by itself. */
  readonly starting: () => void;
}

/** How often a server that dies is started again within this time. */
const RESTARTS = { count: 4, withinMs: 3 * 60_000 };

/**
 * The commands of the server are registered by the extension, which adds what a user is to be asked.
 * So the client must not register them as well.
 */
class OwnCommands implements StaticFeature {
  fillClientCapabilities(): void {}

  preInitialize(capabilities: ServerCapabilities): void {
    delete capabilities.executeCommandProvider;
  }

  initialize(): void {}

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  clear(): void {}
}

/** The extension restarts the server for other folders, and says so. So the server is not told of them, which would say it again. */
class OwnFolders implements StaticFeature {
  fillClientCapabilities(): void {}

  preInitialize(capabilities: ServerCapabilities): void {
    delete capabilities.workspace?.workspaceFolders;
  }

  initialize(): void {}

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  clear(): void {}
}

/** A connection to one server. */
export class Connection implements vscode.Disposable {
  readonly #client: LanguageClient;
  #commands: readonly string[] = [];
  /** How often a file is asked about now, so that the server is left out. */
  readonly #aside = new Map<string, number>();

  constructor(start: Start, log: vscode.LogOutputChannel, handlers: Handlers) {
    const run: Executable = {
      command: start.program,
      args: [...start.args],
      options: { env: start.environment },
    };
    const ends: number[] = [];
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file" }],
      initializationOptions: start.initializationOptions,
      outputChannel: log,
      middleware: {
        provideHover: (document, position, token, next) => (this.#aside.has(document.uri.toString()) ? undefined : next(document, position, token)),
        provideCodeActions: (document, range, context, token, next) => (this.#aside.has(document.uri.toString()) ? undefined : next(document, range, context, token)),
      },
      errorHandler: {
        error: (_error, _message, count) => ({
          action: count !== undefined && count <= 3 ? ErrorAction.Continue : ErrorAction.Shutdown,
        }),
        closed: () => {
          const now = Date.now();
          ends.push(now);
          const recent = ends.filter((at) => now - at < RESTARTS.withinMs).length;
          if (recent <= RESTARTS.count) return { action: CloseAction.Restart, handled: true };
          const message = `roo-lsp has ended ${recent} times in three minutes and is not started again.`;
          return { action: CloseAction.DoNotRestart, message };
        },
      },
    };
    this.#client = new LanguageClient("roo", "Roo", run, options);
    this.#client.registerFeature(new OwnCommands());
    this.#client.registerFeature(new OwnFolders());
    this.#client.onNotification("roo/event", handlers.event);
    this.#client.onNotification("roo/mcp/changed", handlers.mcpChanged);
    this.#client.onNotification("roo/settings/changed", handlers.settingsChanged);
    this.#client.onRequest("roo/document/save", handlers.save);
    this.#client.onRequest("roo/code/ask", handlers.askCode);
    this.#client.onDidChangeState(({ newState }) => {
      if (newState === State.Running) {
        // The features look at the answer only after this.
        this.#commands = this.#client.initializeResult?.capabilities.executeCommandProvider?.commands ?? this.#commands;
        handlers.ready();
      }
      if (newState === State.Starting) handlers.starting();
      if (newState === State.Stopped || newState === State.StartFailed) handlers.gone();
    });
  }

  /** Starts the server; settled when it answers. */
  async start(): Promise<void> {
    await this.#client.start();
  }

  /** Whether the server speaks `roo/*` with this client. */
  get isTyped(): boolean {
    return this.#roo !== undefined;
  }

  /** Whether the server knows a method. */
  knows(method: string): boolean {
    const methods = this.#roo?.["methods"];
    return Array.isArray(methods) && methods.includes(method);
  }

  /** The commands of the server. */
  get commands(): readonly string[] {
    return this.#commands;
  }

  /** Makes a typed request. */
  request<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    return this.#client.sendRequest<Requests[M]["result"]>(method, params);
  }

  /** Sends a typed notification. */
  notify<M extends keyof ClientNotifications>(method: M, params: ClientNotifications[M]["params"]): void {
    // Of a server that has just ended there is nothing to tell.
    this.#client.sendNotification(method, params).catch(() => {});
  }

  /** Runs a command of the server. */
  execute(command: string, argument?: unknown): Promise<unknown> {
    const params = { command, arguments: argument === undefined ? [] : [argument] };
    return this.#client.sendRequest("workspace/executeCommand", params);
  }

  /** Whether the server runs. */
  get isRunning(): boolean {
    return this.#client.state === State.Running;
  }

  /** A document as the server names it. */
  uri(uri: vscode.Uri): string {
    return this.#client.code2ProtocolConverter.asUri(uri);
  }

  /** A document that the server has named. */
  document(uri: string): vscode.Uri {
    return this.#client.protocol2CodeConverter.asUri(uri);
  }

  /** Asks extensions about a file without this server, which is not to be told what it has said itself. */
  async aside<T>(uri: vscode.Uri, ask: () => Thenable<T>): Promise<T> {
    const file = uri.toString();
    this.#aside.set(file, (this.#aside.get(file) ?? 0) + 1);
    try {
      return await ask();
    } finally {
      const left = (this.#aside.get(file) ?? 1) - 1;
      if (left > 0) this.#aside.set(file, left);
      else this.#aside.delete(file);
    }
  }

  async dispose(): Promise<void> {
    // A server that doesn't end in time is ended by the client.
    await this.#client.dispose(2000).catch(() => {});
  }

  get #roo(): Record<string, unknown> | undefined {
    const experimental: unknown = this.#client.initializeResult?.capabilities.experimental;
    if (typeof experimental !== "object" || experimental === null || !("roo" in experimental)) return undefined;
    return experimental.roo as Record<string, unknown>;
  }
}
