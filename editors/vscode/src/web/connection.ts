// The WebSocket to the server: `roo/*` requests with their types, as in the extension, and a new attempt when it is lost.
import type { EventParams, Requests } from "../protocol.ts";
import type { Server } from "../controller.ts";

/** What the server tells first. */
export interface Ready {
  /** With this a page that is loaded again is let in. */
  readonly token: string;
  readonly methods: readonly string[];
  /** The URIs of the workspace folders. */
  readonly folders: readonly string[];
  readonly version: string;
}

/** What the page hears. */
export interface Handlers {
  readonly event: (params: EventParams) => void;
  /** Words for the user; LSP's types of messages. */
  readonly message: (type: number, text: string) => void;
  readonly settingsChanged: () => void;
  readonly ready: (ready: Ready) => void;
  /** The server can't be reached, in words. */
  readonly gone: (problem: string) => void;
}

type Answer = { readonly resolve: (result: never) => void; readonly reject: (error: Error) => void };

/** Time until another attempt, for one after the other. */
const PAUSES_MS = [500, 1000, 2000, 5000, 15_000];
const PATH = "/socket";
const PROTOCOL = "roo-lsp";
/** A page that speaks another language than this server. */
const POLICY = 1008;
const TOO_LONG = 1009;

/** A failure that the server tells. */
class RequestError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: { code: number; message: string; data?: unknown }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** A connection that comes back. */
export class WebConnection implements Server {
  readonly #handlers: Handlers;
  readonly #document: Server["document"];
  #secret: string;
  #socket: WebSocket | undefined;
  #ready: Ready | undefined;
  #attempts = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #nextId = 1;
  #waiting = new Map<number, Answer>();

  /** `secret` lets the page in; `document` reads an address as the shared modules have it. */
  constructor(secret: string, document: Server["document"], handlers: Handlers) {
    this.#secret = secret;
    this.#document = document;
    this.#handlers = handlers;
  }

  /** Connects, unless it is or is about to. */
  connect(): void {
    if (this.#socket) return;
    clearTimeout(this.#timer);
    const address = new URL(PATH, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    const socket = new WebSocket(address, [PROTOCOL, `token.${this.#secret}`]);
    this.#socket = socket;
    let opened = false;
    socket.addEventListener("open", () => (opened = true));
    socket.addEventListener("message", ({ data }: MessageEvent<string>) => this.#take(JSON.parse(data) as Message));
    socket.addEventListener("close", ({ code, reason }) => void this.#lost(opened, code, reason));
  }

  get isRunning(): boolean {
    return this.#ready !== undefined;
  }

  get isTyped(): boolean {
    return this.isRunning;
  }

  knows(method: string): boolean {
    return this.#ready?.methods.includes(method) === true;
  }

  request<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    const socket = this.#socket;
    if (!socket || !this.#ready) return Promise.reject(new Error("The server can't be reached."));
    return new Promise((resolve, reject) => {
      const id = this.#nextId;
      this.#nextId += 1;
      this.#waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** A page has no documents and no settings of its own to tell of. */
  notify(): void {}

  uri(uri: { toString(): string }): string {
    return uri.toString();
  }

  document(uri: string): ReturnType<Server["document"]> {
    return this.#document(uri);
  }

  #take(message: Message): void {
    if (message.method === undefined) return this.#answer(message);
    switch (message.method) {
      case "web/ready":
        this.#ready = message.params as Ready;
        this.#secret = this.#ready.token;
        this.#attempts = 0;
        return this.#handlers.ready(this.#ready);
      case "roo/event":
        return this.#handlers.event(message.params as EventParams);
      case "roo/settings/changed":
        return this.#handlers.settingsChanged();
      case "window/showMessage": {
        const { type, message: text } = message.params as { type: number; message: string };
        return this.#handlers.message(type, text);
      }
    }
  }

  #answer({ id, result, error }: Message): void {
    const answer = id === undefined ? undefined : this.#waiting.get(id);
    if (id === undefined || !answer) return;
    this.#waiting.delete(id);
    if (error) answer.reject(new RequestError(error));
    else answer.resolve(result as never);
  }

  async #lost(opened: boolean, code: number, reason: string): Promise<void> {
    this.#socket = undefined;
    this.#ready = undefined;
    const error = new Error("The connection to the server is lost.");
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    if (code === POLICY || code === TOO_LONG) return this.#handlers.gone(`The server has closed the connection: ${reason}. Reload the page.`);
    // A browser doesn't tell a page why it wasn't let in; a server that answers at all has refused.
    if (!opened && (await isThere())) {
      return this.#handlers.gone("This address is no longer valid. Open the page from your editor again (“Roo: open in browser”), or use the address that roo-lsp web prints.");
    }
    const pause = PAUSES_MS[Math.min(this.#attempts, PAUSES_MS.length - 1)];
    this.#attempts += 1;
    this.#handlers.gone("The server can't be reached. It may have ended with its editor; the page connects again by itself.");
    this.#timer = setTimeout(() => this.connect(), pause);
  }
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

async function isThere(): Promise<boolean> {
  try {
    return (await fetch("/", { method: "GET", cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
