// Other clients of a user's daemon, beside VS Code: the real Neovim, the real Helix, and `roo-lsp attach` in a terminal.
import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { EventParams } from "../../src/protocol.ts";
import { DEADLINE, given, until, type User } from "./editor.ts";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** What comes to a client, in order, and those who wait for it. */
export class Seen {
  readonly #events: EventParams[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #name: string;
  /** The number after which the client came. */
  #after: number | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  /** The client knows all up to this number. */
  knows(seq: number): void {
    if (this.#events.length === 0) this.#after = seq;
  }

  add(params: EventParams): void {
    this.#events.push(params);
    for (const look of [...this.#waiting]) look();
  }

  /** Waits for an event, also for one that has come. */
  async until(what: string, fits: (params: EventParams) => boolean): Promise<EventParams> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`${this.#name} did not see ${what}; the newest is ${JSON.stringify(this.#events.at(-1))}`));
      }, DEADLINE);
      const look = (): void => {
        const found = this.#events.find(fits);
        if (!found) return;
        clearTimeout(late);
        this.#waiting.delete(look);
        resolve(found);
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** The events with a number, by it; fails where one is missing or comes twice. Versions of a message may come as one. */
  numbered(): Map<number, string> {
    const found = new Map<number, string>();
    let last = this.#after;
    for (const { seq, from, taskId, event } of this.#events) {
      if (seq == null) continue;
      if (last !== undefined && (from ?? seq) !== last + 1) throw new Error(`${this.#name}: ${seq} came after ${last}`);
      last = seq;
      if (from == null) found.set(seq, inOneForm({ taskId, event }));
    }
    return found;
  }
}

/** The same text for what is the same, whichever program has written it. */
export function inOneForm(value: object): string {
  return JSON.stringify(value, sorted);
}

function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null).toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** A Neovim without a screen. */
export class Neovim {
  readonly seen = new Seen("Neovim");
  readonly #process: ChildProcessWithoutNullStreams;
  /** Who waits for an answer, by its number. */
  readonly #answers = new Map<number, { answer: (value: unknown) => void; fail: (problem: Error) => void }>();
  #asked = 0;
  #said = "";

  constructor(user: User) {
    const found = spawnSync(`${root}scripts/editors/neovim`, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
    const settings = fileURLToPath(new URL("neovim.lua", import.meta.url));
    // No variable more than the others have: it would be another environment, and so another daemon.
    const where = `let g:roo_test = ${JSON.stringify({ plugin: `${root}editors/neovim`, server: given("ROO_LSP") })}`;
    this.#process = spawn(found.stdout.trim(), ["--headless", "-n", "--cmd", where, "-u", settings], { cwd: user.workspace, env: user.environment });
    this.#process.stderr.on("data", (piece: Buffer) => (this.#said += piece.toString()));
    this.#process.once("exit", (code) => {
      for (const { fail } of this.#answers.values()) fail(new Error(`Neovim has ended with ${code}: ${this.#said}`));
    });
    createInterface({ input: this.#process.stdout }).on("line", (line) => {
      const message = JSON.parse(line) as { event: EventParams } | { id: number; ok: boolean; value: unknown };
      if ("event" in message) return this.seen.add(message.event);
      const waiting = this.#answers.get(message.id);
      this.#answers.delete(message.id);
      if (message.ok) waiting?.answer(message.value);
      else waiting?.fail(new Error(`${String(message.value)}\n${this.#said}`));
    });
  }

  /** Runs Lua there. */
  async lua(lua: string): Promise<unknown> {
    const id = (this.#asked += 1);
    return new Promise((answer, fail) => {
      this.#answers.set(id, { answer, fail });
      this.#process.stdin.write(`${JSON.stringify({ id, lua })}\n`);
    });
  }

  /** Runs a command there. */
  async command(command: string): Promise<void> {
    await this.lua(`vim.cmd(${JSON.stringify(command)})`);
  }

  /** The titles of what waits for its user. */
  async waiting(): Promise<unknown> {
    return this.lua(`
      local request = require('roo.requests').current()
      local titles = {}
      for _, one in ipairs(request and request.approvals or {}) do table.insert(titles, one.title) end
      for _, one in ipairs(request and request.questions or {}) do table.insert(titles, one.text) end
      return table.concat(titles, ', ')
    `);
  }

  /** The lines of a buffer. */
  async text(name: string): Promise<unknown> {
    return this.lua(`return table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr(${JSON.stringify(name)}), 0, -1, false), '\\n')`);
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}

/** Helix in a terminal: plain LSP, by keys alone. */
export class Helix {
  readonly #socket: string;
  readonly #environment: Record<string, string>;

  constructor(user: User, file: string) {
    const found = spawnSync(`${root}scripts/editors/helix`, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
    this.#socket = join(user.home, "helix.tmux");
    this.#environment = { ...user.environment, TERM: "xterm-256color", COLORTERM: "truecolor" };
    const config = join(user.home, "config/helix");
    mkdirSync(config);
    for (const [name, option] of [["languages.toml", "bash"], ["config.toml", "--keys"]] as const) {
      const { stdout } = spawnSync(given("ROO_LSP"), ["helix-config", option], { env: this.#environment, encoding: "utf8" });
      const own = stdout.replace('command = "roo-lsp"', `command = ${JSON.stringify(given("ROO_LSP"))}`).replace('args = ["serve"]', 'args = ["--daemon"]');
      writeFileSync(join(config, name), own.replace("after-delay.enable = true", "after-delay.enable = false"));
    }
    this.#tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "44", "-c", user.workspace, found.stdout.trim(), file);
    this.#tmux("set", "-g", "escape-time", "0");
  }

  /** What is on its screen. */
  screen(): string {
    return this.#tmux("capture-pane", "-p");
  }

  press(...keys: readonly string[]): void {
    this.#tmux("send-keys", ...keys);
  }

  async shows(what: RegExp): Promise<void> {
    await until(() => what.test(this.screen()), `Helix shows ${what}`).catch((error: unknown) => {
      throw new Error(`${String(error)}:\n${this.screen()}`);
    });
  }

  /** Leaves whatever is open. */
  async normal(): Promise<void> {
    this.press("Escape");
    await this.shows(/ NOR /);
  }

  /** Presses keys until they have had their effect: some are lost while Helix starts, and before its server serves. */
  async pressUntil(what: RegExp, ...keys: readonly string[]): Promise<void> {
    await until(async () => {
      await this.normal();
      this.press(...keys);
      await until(() => what.test(this.screen()), `${what}`, 2000);
      return true;
    }, `Helix shows ${what}`).catch((error: unknown) => {
      throw new Error(`${String(error)}:\n${this.screen()}`);
    });
  }

  /** Chooses a code action. */
  async choose(title: string): Promise<void> {
    const offered = (): string[] => [...this.screen().matchAll(/(?<!")Roo: [^│\n]*/g)].map(([action]) => action);
    const is = (action: string): boolean => action.includes(title);
    await until(async () => {
      await this.normal();
      this.press("Space", "a");
      await until(() => offered().some(is), title, 2000);
      return true;
    }, `Helix offers ${title}`).catch((error: unknown) => {
      throw new Error(`${String(error)}:\n${this.screen()}`);
    });
    // It marks the first one; the others are below it.
    this.press(...Array.from({ length: offered().findIndex(is) }, () => "C-n"), "Enter");
  }

  /** Opens the document of the newest request, in a window of its own. */
  async openTask(title: string): Promise<void> {
    // A command is refused before the server serves.
    await this.pressUntil(/Roo: explain/, "Space", "a");
    await this.normal();
    this.press("Space", "o", "o");
    await this.shows(new RegExp(`# ${title}`));
  }

  kill(): void {
    spawnSync("tmux", ["-S", this.#socket, "kill-server"], { env: this.#environment });
  }

  #tmux(...args: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync("tmux", ["-S", this.#socket, ...args], { env: this.#environment, encoding: "utf8" });
    if (status !== 0) throw new Error(`tmux ${args.join(" ")}: ${stderr}`);
    return stdout;
  }
}

/** `roo-lsp attach`. */
export class Terminal {
  readonly seen = new Seen("the terminal");
  readonly ended: Promise<number | null>;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #changed = new Set<() => void>();
  /** All that was shown. */
  shown = "";

  private constructor(process: ChildProcessWithoutNullStreams) {
    this.#process = process;
    this.ended = new Promise((resolve) => process.once("exit", resolve));
  }

  /** In a terminal, as a user sees it. */
  static attach(user: User): Terminal {
    const command = `exec '${given("ROO_LSP")}' attach`;
    // It makes the terminal.
    const terminal = new Terminal(spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], { cwd: user.workspace, env: { ...user.environment, TERM: "xterm" } }));
    terminal.#process.stdout.on("data", (piece: Buffer) => {
      terminal.shown += piece.toString();
      for (const look of [...terminal.#changed]) look();
    });
    return terminal;
  }

  /** For a program, which gets the events. */
  static follow(user: User): Terminal {
    const terminal = new Terminal(spawn(given("ROO_LSP"), ["attach", "--format", "ndjson"], { cwd: user.workspace, env: user.environment }));
    createInterface({ input: terminal.#process.stdout }).on("line", (line) => terminal.seen.add(JSON.parse(line) as EventParams));
    return terminal;
  }

  /** Waits until this is shown behind a place; returns the place behind it. */
  async shows(text: string, from = 0): Promise<number> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#changed.delete(look);
        reject(new Error(`the terminal did not show ${text}:\n${this.shown}`));
      }, DEADLINE);
      const look = (): void => {
        const at = this.shown.indexOf(text, from);
        if (at < 0) return;
        clearTimeout(late);
        this.#changed.delete(look);
        resolve(at + text.length);
      };
      this.#changed.add(look);
      look();
    });
  }

  types(line: string): void {
    this.#process.stdin.write(`${line}\n`);
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}

/** What the user's daemons say of themselves. */
export function daemons(user: User): { process: number; clients: number; requests: { urid: string; clients: number }[] }[] {
  const { stdout } = spawnSync(given("ROO_LSP"), ["daemon", "status", "--json"], { env: user.environment, encoding: "utf8" });
  return stdout.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line) as ReturnType<typeof daemons>[number]);
}

/** Ends the user's daemons. */
export function stopDaemons(user: User): void {
  spawnSync(given("ROO_LSP"), ["daemon", "stop"], { env: user.environment });
}
