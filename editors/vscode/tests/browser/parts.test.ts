// The parts around the chat: notifications, history, branches, the queue, keys, mentions, and what goes wrong.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Frame } from "playwright-core";
import { DEADLINE, Editor, until } from "./editor.ts";

/** A model that does a little of everything. */
const SCRIPT = `turns:
  - mode: code
    when: { contains: "Say hello" }
    text: "Hello, with \`code\`, [a link](https://example.org/), [a file](greeting.sh#L5) and <b>no markup</b>."
    calls:
      - tool: write_to_file
        params: { path: hello.txt, content: "hello\\n" }
    chunk: 8
    delayMs: 100
    usage: { tokensIn: 1200, tokensOut: 30, costUsd: 0.0041 }
  - mode: code
    when: { status: ok, contains: "hello.txt" }
    text: "Slowly, slowly, slowly, slowly, slowly, slowly, slowly, slowly, slowly, slowly, slowly, slowly."
    # Nobody waits for its end: messages are queued while it goes on, and it is cancelled.
    chunk: 4
    delayMs: 1500
    calls:
      - tool: attempt_completion
        params: { result: "Said hello." }
    repeat: true
  - mode: code
    when: { status: denied }
    calls:
      - tool: attempt_completion
        params: { result: "Then not." }
  - mode: code
    repeat: true
    calls:
      - tool: attempt_completion
        params: { result: "Heard." }
`;

async function start(editor: Editor, prompt: string): Promise<Frame> {
  const chat = await editor.newTask("code");
  await editor.page.keyboard.type(prompt);
  await editor.page.keyboard.press("Enter");
  return chat;
}

test("what stands around the chat works", async (context) => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code" } });
  try {
    let chat = await start(editor, "Say hello");

    await context.test("a link of a model leads where it may, and its markup is text", async () => {
      const said = chat.locator(".said.text .markdown", { hasText: "Hello, with" });
      await said.waitFor({ timeout: DEADLINE });
      assert.equal(await said.locator("b").count(), 0);
      await said.locator("a", { hasText: "a file" }).click();
      await editor.page.locator(".tab.active", { hasText: "greeting.sh" }).waitFor({ timeout: DEADLINE });
      await editor.page.locator(".statusbar-item", { hasText: "Ln 5, Col 1" }).waitFor({ timeout: DEADLINE });
    });

    await context.test("a word goes with an answer, and the status bar says what waits", async () => {
      await editor.page.locator(".statusbar-item", { hasText: "Roo: 1 waiting" }).waitFor({ timeout: DEADLINE });
      const card = chat.locator("#waiting .approval");
      await card.locator("summary").click();
      await card.getByLabel("Feedback for the agent").fill("Use another name");
      await card.locator('[data-option="reject_once"]').click();
      await chat.locator(".said.completion_result", { hasText: "Then not." }).waitFor({ timeout: DEADLINE });
      await until(async () => /completed.*\$0\.0041/.test((await chat.locator("#standing").textContent()) ?? ""), "the header says how it stands and what it cost");
      await until(async () => (await chat.locator("#waiting .card").count()) === 0, "nothing waits");
    });

    await context.test("a hidden chat asks by a notification, which shows the changes and allows", async () => {
      chat = await start(editor, "Say hello once more");
      await editor.page.keyboard.press("Control+Shift+e");
      await editor.page.locator(".explorer-folders-view").waitFor({ timeout: DEADLINE });
      await editor.pressInMessage("Roo asks: Create hello.txt", "Show changes");
      await editor.page.locator(".tab.active", { hasText: "Create hello.txt" }).waitFor({ timeout: DEADLINE });
      await editor.command("Roo: Allow the Requested Action");
      await until(() => readFileSync(join(editor.workspace, "hello.txt"), "utf8") === "hello\n", "the file is written");
    });

    await context.test("messages wait in a queue that can be changed", async () => {
      await editor.command("Roo: Focus on Chat View");
      chat = await editor.chat();
      await chat.locator("#later").waitFor({ timeout: DEADLINE });
      for (const text of ["first", "second"]) {
        await chat.locator("#prompt").fill(text);
        await chat.locator("#later").click();
        await chat.locator(`#queue input[value="${text}"]`).waitFor({ timeout: DEADLINE });
      }
      await chat.locator('#queue li:has(input[value="second"]) button', { hasText: "Remove" }).click();
      await until(async () => (await chat.locator("#queue li").count()) === 1, "one is left");
      await chat.locator("#queue input").fill("changed");
      await chat.locator("#queue input").press("Enter");
      await chat.locator('#queue input[value="changed"]').waitFor({ timeout: DEADLINE });
      await chat.locator("#cancel").click();
      await chat.locator("#resume").waitFor({ timeout: DEADLINE });
    });

    await context.test("the history opens what was, and deletes it", async () => {
      await editor.command("Roo: Open History");
      const entries = chat.locator("#history .entry");
      await until(async () => (await entries.count()) === 2, "both requests are there");
      assert.match((await entries.nth(1).textContent()) ?? "", /Say hello.*completed/);
      const listed = /[\d.k]+ tokens · \$[\d.]+/.exec((await entries.nth(1).textContent()) ?? "")?.[0];
      await entries.nth(1).click();
      await chat.locator(".said.completion_result", { hasText: "Then not." }).waitFor({ timeout: DEADLINE });
      await until(async () => (await chat.locator("#usage .cost").textContent()) === listed, `the header says ${listed} as the history does`);
      await editor.command("Roo: Open History");
      await chat.locator('#history button[aria-label^="Delete"]').nth(1).click();
      await editor.page.locator(".monaco-dialog-box .monaco-button", { hasText: "Delete" }).click({ timeout: DEADLINE });
      await until(async () => (await entries.count()) === 1, "one is left");
      await chat.locator("#history .entry").first().press("Escape");
      await until(async () => !(await chat.locator("#history").isVisible()), "Escape closes it");
    });

    await context.test("files and commands are offered as one types", async () => {
      await editor.newTask("code");
      await editor.page.keyboard.type("Look at @greet");
      await chat.locator("#choices li", { hasText: "greeting.sh" }).waitFor({ timeout: DEADLINE });
      await editor.page.keyboard.press("Tab");
      assert.equal(await chat.locator("#prompt").inputValue(), "Look at @greeting.sh ");
      await chat.locator("#prompt").fill("");
      await editor.page.keyboard.type("/ini");
      await chat.locator('#choices li[aria-selected="true"]', { hasText: "/init" }).waitFor({ timeout: DEADLINE });
      await editor.page.keyboard.press("Escape");
      await until(async () => !(await chat.locator("#choices").isVisible()), "Escape closes the list");
      await chat.locator("#prompt").fill("");
    });

    await context.test("images go along with a message, and only images", async () => {
      const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
      await chat.locator('#composer input[type="file"]').setInputFiles([
        { name: "pixel.png", mimeType: "image/png", buffer: pixel },
        { name: "drawing.svg", mimeType: "image/svg+xml", buffer: Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>") },
      ]);
      await until(async () => ((await chat.locator("#announcer").textContent()) ?? "").includes("drawing.svg can't be sent"), "what can't be sent is told");
      assert.equal(await chat.locator("#images img").count(), 1);
      // As a paste brings it.
      await chat.locator("#prompt").evaluate((field, bytes) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "pasted.png", { type: "image/png" }));
        field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
      }, [...pixel]);
      await until(async () => (await chat.locator("#images img").count()) === 2, "both are there");
      await chat.locator('#images button[aria-label="Remove Image 2"]').press("Enter");
      await until(async () => (await chat.locator("#images img").count()) === 1, "one is left");
      await chat.locator("#prompt").fill("Heed this picture");
      await chat.locator("#prompt").press("Enter");
      // What the server's log holds is what is shown.
      const shown = chat.locator("#feed .said.user_feedback", { hasText: "Heed this picture" }).locator("img");
      await shown.waitFor({ timeout: DEADLINE });
      assert.equal(await shown.getAttribute("src"), `data:image/png;base64,${pixel.toString("base64")}`);
      assert.ok(await shown.evaluate((one) => (one as HTMLImageElement).naturalWidth === 1), "the page may show it");
      await until(async () => (await chat.locator("#images img").count()) === 0, "the composer is empty");
      await chat.locator(".said.completion_result", { hasText: "Heard." }).waitFor({ timeout: DEADLINE });
    });

    await context.test("a key goes to the server's environment, and nowhere else", async () => {
      await editor.command("Roo: Set API Key");
      await editor.answerInput("ANTHROPIC_API_KEY");
      await editor.page.locator('.quick-input-widget input[type="password"]').waitFor({ timeout: DEADLINE });
      await editor.answerInput("secret-of-the-test");
      await editor.pressInMessage("The change takes effect", "Restart");
      await until(() => editor.environments().some((one) => one.includes("ANTHROPIC_API_KEY=secret-of-the-test")), "the server has the key");
      for (const layer of ["User", "Machine"] as const) {
        assert.ok(!readFileSync(editor.settingsFile(layer), "utf8").includes("secret-of-the-test"));
      }
    });
    assert.deepEqual(editor.foreign, []);
  } catch (error) {
    throw await editor.failed("parts", error);
  } finally {
    await editor.stop();
  }
});

/** The button of a view's title. */
function titleButton(editor: Editor, label: string): ReturnType<Editor["page"]["locator"]> {
  return editor.page.locator(".pane-header .action-label", { hasText: "" }).and(editor.page.locator(`[aria-label^="${label}"]`)).first();
}

test("what a workspace brings steers nobody before the user trusts it", async (context) => {
  const editor = await Editor.start({
    settings: { "roo.mode": "code" },
    workspace: (directory) => {
      writeFileSync(join(directory, ".roomodes"), "customModes:\n  - slug: poet\n    name: Poet\n    roleDefinition: You write poems.\n    groups: [read]\n");
      writeFileSync(join(directory, "other.txt"), "");
    },
  });
  try {
    await editor.command("Roo: New Task…");
    const chat = await editor.chat();
    await chat.locator("#trust", { hasText: ".roomodes" }).waitFor({ timeout: DEADLINE });
    assert.equal(await chat.locator('#mode option[value="poet"]').count(), 0);
    await chat.locator("#trust button").click();
    const dialog = editor.page.locator(".monaco-dialog-box", { hasText: "Trust this workspace?" });
    await dialog.waitFor({ timeout: DEADLINE });
    assert.match((await dialog.textContent()) ?? "", /\.roomodes/);
    await dialog.locator(".monaco-button", { hasText: "Trust" }).click();
    await chat.locator('#mode option[value="poet"]').waitFor({ state: "attached", timeout: DEADLINE });
    await until(async () => !(await chat.locator("#trust").isVisible()), "the note is gone");

    await context.test("the view's own buttons act on what is shown", async () => {
      await chat.locator("#prompt").fill("Anything");
      await chat.locator("#prompt").press("Enter");
      // The script has no turn for it: the task asks what to do, and waits.
      await chat.locator("#waiting .question").waitFor({ timeout: DEADLINE });
      await titleButton(editor, "Cancel the Task").click({ timeout: DEADLINE });
      await chat.locator("#resume").waitFor({ timeout: DEADLINE });
      await titleButton(editor, "Resume the Task").click({ timeout: DEADLINE });
      await chat.locator("#waiting .question").waitFor({ timeout: DEADLINE });
      await titleButton(editor, "New Task").click({ timeout: DEADLINE });
      await until(async () => (await chat.locator("#title").textContent()) === "New task", "the page is empty");
    });
  } catch (error) {
    throw await editor.failed("trust", error);
  } finally {
    await editor.stop();
  }
});

test("in Restricted Mode it works by the user's settings, and leaves trust to the editor", async () => {
  const editor = await Editor.start({
    settings: { "security.workspace.trust.enabled": true, "security.workspace.trust.startupPrompt": "never", "security.workspace.trust.banner": "never" },
  });
  try {
    await editor.page.locator(".statusbar-item", { hasText: "Restricted Mode" }).waitFor({ timeout: DEADLINE });
    await editor.newTask("new-task");
    await editor.command("Roo: Trust Workspace…");
    await editor.page.locator(".workspace-trust-editor").waitFor({ timeout: DEADLINE });
  } catch (error) {
    throw await editor.failed("restricted", error);
  } finally {
    await editor.stop();
  }
});

test("the server that the extension brings is started where no other is named", async () => {
  const directory = mkdtempSync(join(tmpdir(), "roo-package-"));
  const packed = join(directory, "bundled.vsix");
  const pack = fileURLToPath(new URL("../../scripts/package.mjs", import.meta.url));
  const made = spawnSync(process.execPath, [pack, "--server", process.env["ROO_LSP"] ?? "", "--out", packed], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const editor = await Editor.start({ package: packed, settings: { "roo.server.path": "" } });
  try {
    await editor.newTask("new-task");
    assert.match(editor.commands().join("\n"), /extensions\/roo-lsp\.roo-lsp-[^/]*\/server\/roo-lsp --stdio/);
  } catch (error) {
    throw await editor.failed("bundled", error);
  } finally {
    await editor.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});

test("a server that isn't there is told, in the chat and as a message", async () => {
  const editor = await Editor.start({ settings: { "roo.server.path": "roo-lsp" } });
  try {
    await editor.message("roo.server.path must be an absolute path");
    await editor.command("Roo: Focus on Chat View");
    const chat = await editor.chat();
    await chat.locator("#problem", { hasText: "must be an absolute path" }).waitFor({ timeout: DEADLINE });
    assert.ok(await chat.locator("#send").isDisabled());
  } catch (error) {
    throw await editor.failed("problem", error);
  } finally {
    await editor.stop();
  }
});
