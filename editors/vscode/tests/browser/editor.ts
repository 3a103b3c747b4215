// Runs the real editor: VS Code's server with the packed extension, and a browser that shows it. Each run has a
// home, a state and a workspace of its own, and ends every process that it began.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type BrowserContext, type Frame, type Locator, type Page } from "playwright-core";

const extension = fileURLToPath(new URL("../..", import.meta.url));
export const scenario = join(extension, "../../tests/editors/scenario");
/** How long anything may take on a busy machine, in milliseconds. */
export const DEADLINE = 90_000;

/** A variable that the test script sets. */
export function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run editors/vscode/test`);
  return value;
}

export interface Options {
  /** Settings of the user. */
  readonly settings?: Record<string, unknown>;
  readonly theme?: "dark" | "light" | "high-contrast" | "high-contrast-light";
  /** The user, whose other programs share their home; a new one when left out. */
  readonly user?: User;
  /** What the workspace holds; the scenario's files when left out. */
  readonly workspace?: (directory: string) => void;
  /** The file of the embedded model's script; the scenario's when left out. */
  readonly script?: string;
  /** The embedded model's script itself, in place of a file. */
  readonly turns?: string;
  /** Whether tests can be run inside of the extension host; the editor shows no messages then. */
  readonly hostTests?: boolean;
  /** Another package of the extension. */
  readonly package?: string;
  readonly size?: { width: number; height: number };
}

export const THEMES = {
  dark: "Default Dark Modern",
  light: "Default Light Modern",
  "high-contrast": "Default High Contrast",
  "high-contrast-light": "Default High Contrast Light",
};

/** A user: a home with the state of all of their programs, and a workspace. */
export class User {
  readonly home = mkdtempSync(join(tmpdir(), "roo-vscode-"));
  readonly workspace = join(this.home, "workspace");

  constructor(fill: (workspace: string) => void) {
    mkdirSync(this.workspace);
    fill(this.workspace);
  }

  /** The environment of their programs. */
  get environment(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "",
      HOME: this.home,
      SHELL: "/bin/bash",
      XDG_CONFIG_HOME: join(this.home, "config"),
      XDG_STATE_HOME: join(this.home, "state"),
      XDG_DATA_HOME: join(this.home, "share"),
      XDG_CACHE_HOME: join(this.home, "cache"),
      LANG: "C.UTF-8",
      EXTENSIONS_GALLERY: JSON.stringify({ serviceUrl: "http://127.0.0.1:9/g", itemUrl: "http://127.0.0.1:9/i", resourceUrlTemplate: "http://127.0.0.1:9/r" }),
    };
  }

  /** Removes all of it. */
  remove(): void {
    if (process.env["ROO_KEEP"]) return;
    writable(this.home);
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A running editor with one page. */
export class Editor {
  readonly home: string;
  readonly workspace: string;
  /** Where the editor itself keeps its data. */
  readonly #own: string;
  /** The user who goes with the editor. */
  readonly #removed: User | undefined;
  /** Hosts that the page asked for, besides its own. */
  readonly foreign: string[] = [];
  readonly #process: ChildProcess;
  readonly #context: BrowserContext;
  readonly #url: string;
  page: Page;

  private constructor(user: User, own: string, removes: boolean, server: ChildProcess, context: BrowserContext, page: Page, url: string) {
    this.home = user.home;
    this.workspace = user.workspace;
    this.#own = own;
    this.#removed = removes ? user : undefined;
    this.#process = server;
    this.#context = context;
    this.#url = url;
    this.page = page;
    context.on("request", (request) => {
      const { hostname, protocol } = new URL(request.url());
      // Resources of web views have names of their own, which the page's service worker answers itself.
      const own = /(^|\.)(127\.0\.0\.1|localhost)$|^vscode-remote\+.*\.vscode-resource\.vscode-cdn\.net$/;
      if (protocol.startsWith("http") && !own.test(hostname)) this.foreign.push(hostname);
    });
  }

  /** Starts the server and the browser. */
  static async start(options: Options = {}): Promise<Editor> {
    const user = options.user ?? new User(options.workspace ?? ((directory) => cpSync(join(scenario, "workspace"), directory, { recursive: true })));
    const own = mkdtempSync(join(user.home, "editor-"));
    const data = join(own, "data");
    const extensions = join(own, "extensions");

    let script = options.script ?? join(scenario, "turns.yaml");
    if (options.turns !== undefined) {
      script = join(own, "script.yaml");
      writeFileSync(script, options.turns);
    }
    const settings = {
      "roo.server.path": given("ROO_LSP"),
      "roo.profile": "scenario",
      "roo.profiles": { scenario: { provider: "scripted", model: "script", script } },
      "workbench.colorTheme": THEMES[options.theme ?? "dark"],
      "window.autoDetectColorScheme": false,
      "window.autoDetectHighContrast": false,
      "extensions.autoCheckUpdates": false,
      "extensions.autoUpdate": false,
      "extensions.ignoreRecommendations": true,
      "telemetry.telemetryLevel": "off",
      "chat.disableAIFeatures": true,
      "workbench.startupEditor": "none",
      "workbench.tips.enabled": false,
      "workbench.secondarySideBar.defaultVisibility": "hidden",
      "security.workspace.trust.enabled": false,
      "files.autoSave": "off",
      "editor.minimap.enabled": false,
      ...options.settings,
    };
    for (const layer of ["User", "Machine"]) {
      mkdirSync(join(data, "data", layer), { recursive: true });
      writeFileSync(join(data, "data", layer, "settings.json"), JSON.stringify(settings, null, 2));
    }

    const { environment } = user;
    const common = ["--server-data-dir", data, "--extensions-dir", extensions, "--accept-server-license-terms", "--telemetry-level", "off"];
    const installed = spawnSync(given("VSCODE_SERVER"), [...common, "--install-extension", options.package ?? given("ROO_VSIX")], { env: environment, encoding: "utf8" });
    if (!installed.stdout.includes("was successfully installed")) throw new Error(`the extension can't be installed: ${installed.stdout}${installed.stderr}`);

    const port = await freePort();
    const server = spawn(
      given("VSCODE_SERVER"),
      [...common, "--host", "127.0.0.1", "--port", String(port), "--without-connection-token", ...(options.hostTests ? ["--enable-smoke-test-driver"] : []), "--reconnection-grace-time", "5"],
      { env: environment, detached: true, stdio: ["ignore", "pipe", "pipe"] },
    );
    const log: string[] = [];
    server.stdout?.on("data", (piece: Buffer) => log.push(piece.toString()));
    server.stderr?.on("data", (piece: Buffer) => log.push(piece.toString()));
    const url = `http://127.0.0.1:${port}`;
    try {
      await until(async () => (await fetch(`${url}/version`)).ok, "the server of the editor answers");
      const context = await chromium.launchPersistentContext(join(own, "browser"), {
        executablePath: join(dirname(given("VSCODE_SERVER")), "chromium"),
        headless: true,
        viewport: options.size ?? { width: 1280, height: 800 },
        args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE *.localhost"],
      });
      await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: url });
      const editor = new Editor(user, own, options.user === undefined, server, context, context.pages()[0] ?? (await context.newPage()), url);
      await editor.load();
      return editor;
    } catch (error) {
      end(server);
      throw new Error(`${String(error)}\n${log.join("")}`);
    }
  }

  /** The address of the workbench, with what is given to the extension host. */
  url(payload: readonly (readonly [string, string])[] = []): string {
    const more = payload.length > 0 ? `&payload=${encodeURIComponent(JSON.stringify(payload))}` : "";
    return `${this.#url}/?folder=${encodeURIComponent(this.workspace)}${more}`;
  }

  /** Loads the workbench. */
  async load(): Promise<void> {
    await this.page.goto(this.url());
    await this.page.locator(".statusbar-item", { hasText: "Roo" }).first().waitFor({ timeout: DEADLINE * 2 });
  }

  /** Kills the page as a crash would, and opens a new one. */
  async crash(): Promise<void> {
    const old = this.page;
    this.page = await this.#context.newPage();
    await old.close({ runBeforeUnload: false });
    await this.load();
  }

  /** Opens a second window on the same folder, and goes on in it. */
  async openSecondWindow(): Promise<void> {
    this.page = await this.#context.newPage();
    await this.load();
  }

  /** What the server's own program says of the newest request, from its log: each branch in a line. */
  logged(): string[] {
    const env = { PATH: process.env["PATH"] ?? "", HOME: this.home, XDG_CONFIG_HOME: join(this.home, "config"), XDG_STATE_HOME: join(this.home, "state") };
    const ask = (...of: string[]): { status: number | null; stdout: string; stderr: string } =>
      spawnSync(given("ROO_LSP"), ["tasks", ...of, "--json", "--workspace", this.workspace], { env, encoding: "utf8" });
    const list = ask("list");
    const id = /"taskId":\s*"([^"]+)"/.exec(list.stdout)?.[1] ?? "";
    const tree = ask("tree", id);
    if (tree.status !== 0) throw new Error(`${list.stdout}${list.stderr}${tree.stderr}`);
    return tree.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { mode: string; title: string; state: string })
      .map(({ mode, title, state }) => `${mode}: ${title}, ${state}`);
  }

  /** Kills the server `roo-lsp` of this editor. */
  killServer(): number {
    const killed = this.#servers;
    for (const pid of killed) process.kill(pid, "SIGKILL");
    return killed.length;
  }

  /** Kills the extension hosts of this editor. */
  killExtensionHost(): number {
    const killed = descendants(this.#process.pid ?? 0).filter((pid) => commandOf(pid).includes("--type=extensionHost"));
    for (const pid of killed) process.kill(pid, "SIGKILL");
    return killed.length;
  }

  /** Runs a command by the palette, with keys alone. */
  async command(title: string): Promise<void> {
    await this.#choose("F1", `>${title}`, title);
  }

  /** Opens a file by its name, with keys alone. */
  async open(path: string): Promise<void> {
    const name = path.split("/").at(-1) ?? path;
    await this.#choose("Control+p", path, name);
    await this.page.locator(".tab.active", { hasText: name }).waitFor({ timeout: DEADLINE });
    await this.page.locator(".editor-instance .monaco-editor.focused").waitFor({ timeout: DEADLINE });
  }

  /** Opens the list that a key opens, and takes the first entry that a text leaves. */
  async #choose(key: string, text: string, entry: string): Promise<void> {
    const input = this.page.locator(".quick-input-widget input").first();
    const row = this.page.locator(".quick-input-list .monaco-list-row").first().filter({ hasText: entry });
    // The list closes when the focus is taken from it, as by a view that was asked for before.
    await until(async () => {
      await this.page.keyboard.press(key);
      await input.waitFor({ timeout: 3000 });
      await input.fill(text, { timeout: 3000 });
      await row.waitFor({ timeout: 3000 });
      await this.page.keyboard.press("Enter");
      return true;
    }, `${entry} is chosen`);
  }

  /** Puts the cursor at the start of a line, counted from 1, with keys alone. */
  async goToLine(line: number): Promise<void> {
    const input = this.page.locator(".quick-input-widget input").first();
    const position = this.page.locator(".statusbar-item", { hasText: `Ln ${line}, Col 1` });
    // The key that ends the input is lost where the editor has not understood the number yet.
    await until(async () => {
      await this.page.keyboard.press("Control+g");
      await input.waitFor({ timeout: 3000 });
      await input.fill(`:${line}:1`, { timeout: 3000 });
      await this.page.keyboard.press("Enter");
      await position.waitFor({ timeout: 3000 });
      return true;
    }, `the cursor is in line ${line}`);
  }

  /** Answers the input box that is open. */
  async answerInput(text: string): Promise<void> {
    const input = this.page.locator(".quick-input-widget input").first();
    await input.waitFor({ timeout: DEADLINE });
    await input.fill(text);
    await this.page.keyboard.press("Enter");
  }

  /** Chooses a code action where the cursor is, with keys alone. */
  async act(title: string): Promise<void> {
    const rows = this.page.locator(".action-widget .monaco-list-row.action");
    const focused = this.page.locator(".action-widget .monaco-list-row.action.focused");
    // The list is that of one moment: what is asked for may come with the next one.
    await until(async () => {
      await this.page.keyboard.press("Control+.");
      try {
        await rows.filter({ hasText: title }).first().waitFor({ timeout: 3000 });
        for (let step = await rows.count(); step > 0; step -= 1) {
          if ((await focused.textContent({ timeout: 3000 }))?.includes(title)) {
            await this.page.keyboard.press("Enter");
            await rows.first().waitFor({ state: "detached", timeout: 3000 });
            return true;
          }
          await this.page.keyboard.press("ArrowDown");
        }
        return false;
      } finally {
        if ((await rows.count()) > 0) await this.page.keyboard.press("Escape");
      }
    }, `the code action ${title} is chosen`);
  }

  /**
   * The message that says this, and that has this button where one is named. Messages hide after a while; then the list of them
   * has it, until it is answered.
   */
  async message(text: string, button?: string): Promise<Locator> {
    const said = this.page.locator(".notification-toast .notification-list-item, .notifications-center .notification-list-item", { hasText: text });
    // The progress of a task says what it waits for, too.
    const found = (button === undefined ? said : said.filter({ has: this.#button(this.page, button) })).last();
    const unseen = this.page.locator(".statusbar-item", { has: this.page.locator(".codicon-bell-dot") }).first();
    await until(async () => {
      if (await found.isVisible()) return true;
      const shown = this.page.locator(".notification-toast, .notifications-center.visible");
      if ((await unseen.isVisible()) && (await shown.count()) === 0) await unseen.click({ timeout: 3000 });
      return false;
    }, `a message says ${text}`);
    return found;
  }

  /** Presses a button of the message that says this. */
  async pressInMessage(text: string, button: string): Promise<void> {
    await until(async () => {
      await this.#button(await this.message(text, button), button).first().click({ timeout: 3000 });
      return true;
    }, `${button} is pressed`);
  }

  #button(within: Page | Locator, label: string): Locator {
    return within.locator(".monaco-button", { hasText: new RegExp(`^${label}$`) });
  }

  /** The page of the chat. */
  async chat(): Promise<Frame> {
    let found: Frame | undefined;
    await until(async () => {
      for (const frame of this.page.frames()) {
        if (frame.isDetached() || frame === this.page.mainFrame()) continue;
        if ((await frame.locator("#composer").count().catch(() => 0)) > 0) found = frame;
      }
      return found !== undefined;
    }, "the chat is there");
    if (!found) throw new Error("unreachable");
    return found;
  }

  /** Begins a task by the palette: the chat's page, empty, with the focus in the prompt and this mode. */
  async newTask(mode: string): Promise<Frame> {
    await this.command("Roo: New Task…");
    const chat = await this.chat();
    await until(
      () =>
        chat.evaluate((wanted) => {
          const field = (id: string): (HTMLElement & { value?: string; disabled?: boolean }) | null => document.getElementById(id);
          return field("title")?.textContent === "New task" && field("mode")?.value === wanted && field("send")?.disabled === false && document.activeElement === field("prompt");
        }, mode),
      "a new task can be described",
    );
    return chat;
  }

  /** The page of the chat, once it has the focus and the keys that count there alone count. */
  async chatWithKeys(): Promise<Frame> {
    const chat = await this.chat();
    await until(() => chat.evaluate(() => document.hasFocus()), "the chat has the focus");
    await until(() => chat.evaluate(() => document.body.hasAttribute("data-keys")), "the chat's keys count");
    return chat;
  }

  /** The text of a file on disk. */
  read(path: string): string {
    return readFileSync(join(this.workspace, path), "utf8");
  }

  /** Keeps a picture of what went wrong, and says where it is. */
  async failed(name: string, error: unknown): Promise<unknown> {
    const path = join(dirname(given("VSCODE_SERVER")), `failed-${name}.png`);
    await this.page.screenshot({ path }).catch(() => {});
    if (error instanceof Error) error.message += `\nA picture of it: ${path}`;
    return error;
  }

  /** The file of a layer of settings. */
  settingsFile(layer: "User" | "Machine"): string {
    return join(this.#own, "data/data", layer, "settings.json");
  }

  /** Changes the user's settings while the editor runs. */
  set(change: Record<string, unknown>): void {
    for (const layer of ["User", "Machine"] as const) {
      const path = this.settingsFile(layer);
      // In one step: a file that is read while it is written would have no settings at all.
      writeFileSync(`${path}.new`, JSON.stringify({ ...(JSON.parse(readFileSync(path, "utf8")) as object), ...change }, null, 2));
      renameSync(`${path}.new`, path);
    }
  }

  /** The processes of the servers `roo-lsp` of this editor. */
  get #servers(): number[] {
    return descendants(this.#process.pid ?? 0).filter((pid) => commandOf(pid).includes("roo-lsp --stdio"));
  }

  /** The process ids of the servers `roo-lsp` of this editor. */
  pids(): number[] {
    return this.#servers;
  }

  /** How the servers `roo-lsp` of this editor were started. */
  commands(): string[] {
    return this.#servers.map(commandOf);
  }

  /** The environments of the servers `roo-lsp` of this editor. */
  environments(): string[] {
    return this.#servers.map((pid) => readFileSync(`/proc/${pid}/environ`, "utf8"));
  }

  /** Ends all of it. */
  async stop(): Promise<void> {
    await this.#context.close().catch(() => {});
    const all = descendants(this.#process.pid ?? 0);
    end(this.#process);
    for (const pid of all) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
    await until(() => all.every((pid) => commandOf(pid) === ""), "all processes have ended");
    this.#removed?.remove();
  }
}

/** Opens directories to their owner: a server that was killed leaves some of the kernel that only root could list. */
function writable(directory: string): void {
  chmodSync(directory, 0o700);
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) writable(join(directory, entry.name));
  }
}

/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, deadline = DEADLINE): Promise<void> {
  const end = Date.now() + deadline;
  let last: unknown;
  while (Date.now() < end) {
    try {
      if (await holds()) return;
      last = undefined;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`not within ${deadline} ms: ${what}${last === undefined ? "" : ` (${String(last)})`}`);
}

function end(server: ChildProcess): void {
  try {
    process.kill(-(server.pid ?? 0), "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

/** All processes below one. */
export function descendants(pid: number): number[] {
  let children: number[];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
  return children.flatMap((child) => [child, ...descendants(child)]);
}
