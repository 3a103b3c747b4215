// The keys that the extension contributes: two branches ask at the same time, and everything is decided by keys.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";
import { waitForCard } from "./scenario.ts";

// A branch sees the titles of all of them, and its own brief alone.
const delegate = (title: string, path: string): object => ({ tool: "new_task", params: { mode: "code", message: `💻 ${title}\n\nURID: {{urid}}\n\nPut x into ${path}.\n` } });
const write = (path: string): object => ({
  mode: "code",
  when: { contains: `Put x into ${path}` },
  calls: [{ tool: "write_to_file", params: { path, content: "x\n" } }],
});
const SCRIPT = JSON.stringify({
  turns: [
    { mode: "orchestrator", calls: [delegate("Write the first", "one.txt"), delegate("Write the second", "two.txt")] },
    write("one.txt"),
    write("two.txt"),
    { mode: "code", repeat: true, calls: [{ tool: "attempt_completion", params: { result: "Done." } }] },
    // It goes on until it is cancelled.
    { mode: "orchestrator", repeat: true, text: "Slowly, slowly, slowly, slowly, slowly, slowly, slowly.", chunk: 4, delayMs: 1500 },
  ],
});

test("the chat, new tasks and approvals have keys, which are the editor's elsewhere", async () => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "orchestrator" } });
  const { page } = editor;
  // A key is lost where the editor is still busy with what came before.
  const press = (keys: string[], holds: () => Promise<boolean>, what: string): Promise<void> =>
    until(async () => {
      for (const key of keys) await page.keyboard.press(key);
      await until(holds, what, 5000);
      return true;
    }, what);
  try {
    await editor.open("greeting.sh");
    await page.keyboard.press("Control+k");
    await page.keyboard.press("a");
    let chat = await editor.chat();
    const focused = (): Promise<boolean> => chat.locator("#prompt").evaluate((element) => element === document.activeElement && document.hasFocus());
    await until(focused, "the composer has the focus");
    await until(async () => (await chat.locator("#mode").inputValue()) === "orchestrator", "the server is there");
    await page.keyboard.type("Write both");
    await page.keyboard.press("Enter");
    await until(async () => (await chat.locator(".stack .place").textContent()) === "1 of 2", "both branches ask");
    const title = async (): Promise<string> => (await chat.locator(".card h2").textContent()) ?? "";
    const first = /Create (\w+\.txt)/.exec(await title())?.[1] ?? "";
    const second = first === "one.txt" ? "two.txt" : "one.txt";

    // In a file the same keys are the editor's.
    await editor.open("greeting.sh");
    await editor.goToLine(1);
    const inFile = page.locator(".editor-instance .monaco-editor.focused");
    await inFile.waitFor({ timeout: DEADLINE });
    await press(["Control+Shift+Enter"], async () => (await page.locator(".tab.active.dirty").count()) === 1, "a line was inserted");
    assert.ok(!existsSync(join(editor.workspace, "one.txt")) && !existsSync(join(editor.workspace, "two.txt")), "nothing was allowed");
    await page.keyboard.press("Control+z");

    await press(["Control+k", "a"], async () => {
      chat = await editor.chat();
      return focused();
    }, "the composer has the focus again");
    await editor.chatWithKeys();
    await page.keyboard.press("Alt+ArrowDown");
    await until(async () => (await title()).includes(second), "the second one is in front");
    await page.keyboard.press("Alt+ArrowUp");
    await until(async () => (await title()).includes(first), "the first one is in front");
    await page.keyboard.press("Alt+ArrowDown");
    await until(async () => (await title()).includes(second), "the second one is in front again");
    await page.keyboard.press("Control+Shift+Enter");
    await until(() => existsSync(join(editor.workspace, second)), `${second} is written`);
    assert.ok(!existsSync(join(editor.workspace, first)), "what was in front was allowed, and nothing else");
    await waitForCard(chat, first);
    await page.keyboard.press("Control+Shift+Backspace");
    await until(async () => (await chat.locator("#waiting .card").count()) === 0, "nothing waits");
    assert.ok(!existsSync(join(editor.workspace, first)));

    await chat.locator(".said.text", { hasText: "Slow" }).waitFor({ timeout: DEADLINE });
    await chat.locator("#prompt").focus();
    await editor.chatWithKeys();
    await page.keyboard.press("Shift+Escape");
    await chat.locator("#resume").waitFor({ timeout: DEADLINE });

    await editor.open("greeting.sh");
    await editor.goToLine(4);
    await inFile.waitFor({ timeout: DEADLINE });
    await page.keyboard.press("Shift+End");
    await page.keyboard.press("Control+k");
    await page.keyboard.press("n");
    await chat.locator("#places", { hasText: "greeting.sh:4" }).waitFor({ timeout: DEADLINE });
    await until(focused, "a new task about the selection is begun");

    // The mode that was chosen last is that of the next task, also after the modes were read again.
    const [server] = editor.pids();
    await chat.locator("#mode").selectOption("ask");
    await editor.command("Roo: Restart the Server");
    await until(() => editor.pids().length === 1 && editor.pids()[0] !== server, "another server runs");
    // The mode is remembered.
    await editor.newTask("ask");
  } catch (error) {
    throw await editor.failed("keys", error);
  } finally {
    await editor.stop();
  }
});
