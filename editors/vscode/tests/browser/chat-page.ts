// The chat's page alone, in a browser without an editor: the same files, the same content security policy, the colours
// of VS Code's themes (themes.json), and the messages that the extension would send.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type Page } from "playwright-core";
import type { ChatContext, FromPage, ToPage } from "../../src/chat/messages.ts";
import type { Event, EventParams } from "../../src/protocol.ts";
import { apply, unknownRequest, type Request } from "../../src/state.ts";
import { given, type THEMES } from "./editor.ts";
import type { Told } from "./sample.ts";
import type { Theme } from "./themes.ts";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
const themes = JSON.parse(readFileSync(new URL("themes.json", import.meta.url), "utf8")) as Record<keyof typeof THEMES, Theme>;

export const CONTEXT: ChatContext = {
  problem: undefined,
  modes: [
    { slug: "code", name: "Code", emoji: "💻", source: "built-in", canDelegateTo: [], tools: [] },
    { slug: "architect", name: "Architect", emoji: "🏗️", source: "built-in", canDelegateTo: [], tools: [] },
  ],
  profiles: [{ name: "default", isDefault: true, provider: "anthropic", model: "claude-sonnet-4-5" }],
  commands: [],
  defaultMode: "code",
  defaultProfile: undefined,
  models: { default: { id: "claude-sonnet-4-5", contextWindow: 200_000, pricePerMillion: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }, images: true } },
  autoApprove: { read: true, write: false, execute: false, mcp: false, delegate: true },
  restartPending: false,
  places: [],
  canRestore: true,
  canEdit: true,
  untrusted: [],
};

/** What becomes of these events. */
export function request(...events: readonly Told[]): Request {
  let seq = 0;
  const live = ["message.delta", "tool.output", "tree.changed"];
  const numbered = events.map(({ task = "root", ...event }): EventParams => ({
    rootId: "root",
    taskId: task,
    at: 1_767_322_800_000,
    ...(live.includes(event.type) ? {} : { seq: (seq += 1) }),
    event: event as Event,
  }));
  return numbered.reduce((before, params) => apply(before, params).request, unknownRequest("root"));
}

/** The page in a browser. */
export class ChatPage {
  readonly page: Page;
  readonly #browser: Browser;

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
  }

  static async open(): Promise<ChatPage> {
    const program = join(dirname(given("VSCODE_SERVER")), "chromium");
    const browser = await chromium.launch({ executablePath: program, headless: true, args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"] });
    const page = await browser.newPage();
    await page.route("http://chat.test/**", async (route) => {
      const name = new URL(route.request().url()).pathname.slice(1);
      if (name === "") return route.fulfill({ contentType: "text/html", body: html() });
      return route.fulfill({ contentType: name.endsWith(".css") ? "text/css" : "text/javascript", body: readFileSync(join(dist, name), "utf8") });
    });
    return new ChatPage(browser, page);
  }

  /** Loads it again with a theme and a size. */
  async show(theme: keyof typeof THEMES, size: { width: number; height: number }, shown: Request | undefined, context: Partial<ChatContext> = {}): Promise<void> {
    const { page } = this;
    await page.setViewportSize(size);
    await page.goto("http://chat.test/");
    await page.evaluate(({ kind, variables }) => {
      for (const [name, value] of Object.entries(variables)) document.documentElement.style.setProperty(name, value);
      document.body.classList.add(...kind.split(" ").filter(Boolean));
    }, themes[theme]);
    await this.tell({ type: "context", context: { ...CONTEXT, ...context } });
    await this.tell({ type: "state", request: shown, only: undefined });
    // It draws with the next frame.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }

  /** Sends a message as the extension does. */
  async tell(message: ToPage): Promise<void> {
    await this.page.evaluate((data) => window.dispatchEvent(new MessageEvent("message", { data })), message);
    await this.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }

  /** What the page has told the extension since it was asked last. */
  async told(): Promise<FromPage[]> {
    return this.page.evaluate(() => (window as unknown as { told: FromPage[] }).told.splice(0));
  }

  /** What the page keeps for when it is loaded again. */
  async kept(): Promise<unknown> {
    return this.page.evaluate(() => (window as unknown as { kept?: unknown }).kept);
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

function html(): string {
  const policy = "default-src 'none'; style-src http://chat.test; script-src 'nonce-n'; img-src data:; form-action 'none'";
  return `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">
<title>Roo chat</title><link rel="stylesheet" href="/page.css"></head><body>
<script nonce="n">window.told = []; window.acquireVsCodeApi = () => ({ postMessage: (one) => window.told.push(one), getState() {}, setState: (one) => { window.kept = one; } });</script>
<script nonce="n" src="/page.js"></script></body></html>`;
}
