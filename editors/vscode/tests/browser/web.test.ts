// The page that `roo-lsp web` serves, in a real browser: from a prompt to the result by keyboard and mouse, hostile content, and the
// width of a phone.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { chromium, type Browser, type Page } from "playwright-core";
import { DEADLINE, given, until } from "./editor.ts";
import { cut, violations } from "./looks.ts";

/** What a hostile repository might have a model say: none of it may become markup. */
const HOSTILE = `<img src=x onerror=\\"document.title='owned'\\"><script>document.title='owned'</script> [x](javascript:document.title='owned')`;
const TURNS = `turns:
  - text: "Look: ${HOSTILE}"
    calls: [{ tool: write_to_file, params: { path: "<b>new.txt", content: "one\\ntwo\\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: "All is **written**." } }]
`;

/** A running `roo-lsp web`. */
class Served {
  readonly home = mkdtempSync(join(tmpdir(), "roo-web-"));
  readonly work = join(this.home, "work");
  readonly #process: ChildProcess;
  readonly address: Promise<string>;

  constructor(turns: string) {
    mkdirSync(join(this.home, "config/roo-lsp"), { recursive: true });
    mkdirSync(this.work);
    const script = join(this.home, "script.yaml");
    writeFileSync(script, turns);
    writeFileSync(join(this.home, "config/roo-lsp/config.yaml"), `profiles:\n  default: { provider: scripted, script: ${script} }\n`);
    const env = { ...process.env, HOME: this.home, XDG_CONFIG_HOME: join(this.home, "config"), XDG_STATE_HOME: join(this.home, "state") };
    this.#process = spawn(given("ROO_LSP"), ["web"], { cwd: this.work, env, stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: this.#process.stdout ?? process.stdin });
    this.address = new Promise((resolve) => lines.once("line", resolve));
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await ended;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

let browser: Browser;
before(async () => {
  const executablePath = join(dirname(given("VSCODE_SERVER")), "chromium");
  browser = await chromium.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"] });
});
after(async () => browser.close());

/** The page, with what it asked for besides its own server and what its policy held back. */
async function open(address: string, size: { width: number; height: number }): Promise<{ page: Page; problems: string[] }> {
  const context = await browser.newContext({ viewport: size, colorScheme: "dark" });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(address).origin) && !request.url().startsWith("data:")) problems.push(`asked for ${request.url()}`);
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  await page.goto(address);
  await page.locator("#prompt").waitFor({ timeout: DEADLINE });
  await until(async () => (await page.locator("#problem").isHidden()) && (await page.locator("#mode option").count()) > 0, "the page is connected");
  return { page, problems };
}

async function failed(page: Page, name: string, error: unknown): Promise<unknown> {
  const path = join(dirname(given("VSCODE_SERVER")), `failed-${name}.png`);
  await page.screenshot({ path }).catch(() => {});
  if (error instanceof Error) error.message += `\nA picture of it: ${path}`;
  return error;
}

test("a request is started by keyboard, approved by mouse, and its result, tree and trace are seen", async () => {
  const served = new Served(TURNS);
  const { page, problems } = await open(await served.address, { width: 1280, height: 800 });
  try {
    assert.equal(new URL(page.url()).hash, "", "the token leaves the address bar");
    await page.locator("#mode").selectOption("code");
    for (let step = 0; step < 40 && !(await page.locator("#prompt").evaluate((element) => element === document.activeElement)); step += 1) await page.keyboard.press("Tab");
    await page.keyboard.type("Write <i>notes</i>");
    await page.keyboard.press("Enter");

    const card = page.locator("#waiting .card");
    await card.waitFor({ timeout: DEADLINE });
    await until(async () => (await page.title()).startsWith("(1)"), "the tab tells that something waits");
    assert.equal(await page.locator(".said img, .said script, h1 i").count(), 0, "what others say is text");
    assert.match((await page.locator(".said.text").first().textContent()) ?? "", /<img src=x onerror=/);
    assert.ok(!existsSync(join(served.work, "<b>new.txt")));
    await card.locator('[data-option="allow_once"]').first().click();

    await page.locator(".said.completion_result", { hasText: "All is written." }).waitFor({ timeout: DEADLINE });
    assert.equal(readFileSync(join(served.work, "<b>new.txt"), "utf8"), "one\ntwo\n");

    await page.click("#open-tree");
    await page.locator("#panel .entry", { hasText: "Write <i>notes</i>" }).waitFor({ timeout: DEADLINE });
    await page.click("#open-trace");
    await page.locator(".timeline li", { hasText: "<b>new.txt" }).first().waitFor({ timeout: DEADLINE });
    await page.click('[data-view="files"]');
    await page.locator("#panel", { hasText: "lines 1–2" }).waitFor({ timeout: DEADLINE });
    await page.click('[data-view="intents"]');
    await page.locator("#panel", { hasText: "This workspace has no intents." }).waitFor({ timeout: DEADLINE });
    await page.click('[data-view="settings"]');
    await page.locator("#panel dt", { hasText: "execute.mode" }).waitFor({ timeout: DEADLINE });
    assert.deepEqual(await violations(page), []);

    // The page that is loaded again is let in, and shows the same.
    await page.reload();
    await page.locator(".said.completion_result", { hasText: "All is written." }).waitFor({ timeout: DEADLINE });
    await page.click("#open-history");
    await page.locator("#history .entry", { hasText: "Write <i>notes</i>" }).waitFor({ timeout: DEADLINE });
    assert.ok(!(await page.title()).includes("owned"));
    assert.deepEqual(problems, []);
  } catch (error) {
    throw await failed(page, "web", error);
  } finally {
    await page.context().close();
    await served.stop();
  }
});

test("on a phone nothing scrolls sideways or is cut", async () => {
  const served = new Served(TURNS);
  const { page, problems } = await open(await served.address, { width: 390, height: 844 });
  try {
    assert.deepEqual(await cut(page), []);
    await page.locator("#mode").selectOption("code");
    await page.locator("#prompt").fill("Write the notes");
    await page.locator("#send").click();
    await page.locator("#waiting .card").waitFor({ timeout: DEADLINE });
    assert.deepEqual(await cut(page), []);
    assert.deepEqual(await violations(page), []);
    for (const view of ["#open-tree", "#open-trace", "#open-settings"]) {
      await page.click(view);
      await page.locator("#panel-content > *").waitFor({ timeout: DEADLINE });
      assert.deepEqual(await cut(page), [], view);
      await page.locator('#panel [aria-label="Close"]').click();
    }
    await page.locator('#waiting [data-option="reject_once"]').first().click();
    await page.locator("#waiting .card").waitFor({ state: "hidden", timeout: DEADLINE });
    assert.ok(!existsSync(join(served.work, "<b>new.txt")));
    assert.deepEqual(problems, []);
  } catch (error) {
    throw await failed(page, "web-phone", error);
  } finally {
    await page.context().close();
    await served.stop();
  }
});

test("a page without the token says so, and another window can't tell it anything", async () => {
  const served = new Served(TURNS);
  const address = await served.address;
  const { page } = await open(address, { width: 900, height: 700 });
  try {
    await page.evaluate(() => window.postMessage({ type: "focus", text: "from elsewhere" }, "*"));
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 0)));
    assert.equal(await page.locator("#prompt").inputValue(), "");

    const stranger = await (await browser.newContext()).newPage();
    const { origin } = new URL(address);
    await stranger.goto(origin);
    await stranger.locator("#problem", { hasText: "lets nobody in" }).waitFor({ timeout: DEADLINE });
    // Another document first: a change behind `#` alone loads nothing.
    await stranger.goto("about:blank");
    await stranger.goto(`${origin}/#token=wrong`);
    await stranger.locator("#problem", { hasText: "no longer valid" }).waitFor({ timeout: DEADLINE });
    await stranger.context().close();
  } catch (error) {
    throw await failed(page, "web-token", error);
  } finally {
    await page.context().close();
    await served.stop();
  }
});
