// What the user changes beside the conversation, and what another window or a reload makes of it.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Frame } from "playwright-core";
import { DEADLINE, Editor, until } from "./editor.ts";
import { drawn, waitForCard } from "./scenario.ts";

const write = (prompt: string, path: string): object => ({ mode: "code", when: { contains: prompt }, calls: [{ tool: "write_to_file", params: { path, content: "x\n" } }] });
const SCRIPT = JSON.stringify({
  turns: [
    { ...write("Write one", "one.txt"), usage: { tokensIn: 1200, tokensOut: 30, costUsd: 0.0041 } },
    write("Write two", "two.txt"),
    write("Write three", "three.txt"),
    { mode: "code", repeat: true, calls: [{ tool: "attempt_completion", params: { result: "Done." } }] },
  ],
});

async function start(editor: Editor, prompt: string): Promise<Frame> {
  const chat = await editor.newTask("code");
  await chat.locator("#prompt").fill(prompt);
  await chat.locator("#prompt").press("Enter");
  return chat;
}

test("a switch of auto-approve takes effect without a restart, and the chat shows what counts", async () => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code" }, size: { width: 1280, height: 1100 } });
  try {
    let chat = await start(editor, "Write one");
    await waitForCard(chat, "Create one.txt");
    const before = editor.pids();
    await chat.locator("#auto summary").click();
    await chat.getByLabel("Edit files").check();
    const settings = (): string => readFileSync(editor.settingsFile("Machine"), "utf8");
    await until(() => /"roo\.autoApprove":\s*\{\s*"write": true/.test(settings()), "the setting is the user's");
    await chat.locator("#auto summary", { hasText: "edits" }).waitFor({ timeout: DEADLINE });
    // What asks already is still the user's to answer; what comes is not asked about.
    assert.ok(!existsSync(join(editor.workspace, "one.txt")));
    await chat.locator('[data-option="allow_once"]').click();
    await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });
    chat = await start(editor, "Write two");
    await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });
    assert.ok(existsSync(join(editor.workspace, "two.txt")));

    await chat.getByLabel("Edit files").uncheck();
    await chat.locator("#auto summary", { hasText: /^(?!.*edits)/ }).waitFor({ timeout: DEADLINE });
    await start(editor, "Write three");
    await waitForCard(await editor.chat(), "Create three.txt");
    assert.ok(await chat.locator("#restart").isHidden());
    assert.deepEqual(editor.pids(), before, "it is the same server all along");
  } catch (error) {
    throw await editor.failed("settings", error);
  } finally {
    await editor.stop();
  }
});

test("a new task begins in the mode of config.yaml until the user chooses another", async () => {
  const file = (workspace: string): string => join(workspace, "../config/roo-lsp/config.yaml");
  const configure = (workspace: string): void => {
    mkdirSync(join(file(workspace), ".."), { recursive: true });
    writeFileSync(file(workspace), "mode: ask\n");
  };
  const editor = await Editor.start({ turns: SCRIPT, workspace: configure });
  try {
    let chat = await editor.newTask("ask");
    writeFileSync(file(editor.workspace), "mode: debug\n");
    chat = await editor.newTask("debug");
    await chat.locator("#mode").selectOption("code");
    await editor.newTask("code");
  } catch (error) {
    throw await editor.failed("default-mode", error);
  } finally {
    await editor.stop();
  }
});

test("a reload tells what still waits once, and nothing of what is over; a second window can be used", async () => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code", "roo.notifications": "always" } });
  try {
    let chat = await start(editor, "Write one");
    await waitForCard(chat, "Create one.txt");
    await chat.locator('[data-option="allow_once"]').click();
    await chat.locator(".said.completion_result").waitFor({ timeout: DEADLINE });
    const toasts = editor.page.locator(".notification-toast", { hasText: "Roo asks" });
    await editor.page.reload();
    await editor.page.locator(".statusbar-item", { hasText: "completed" }).waitFor({ timeout: DEADLINE * 2 });
    assert.equal(await toasts.count(), 0, "what was answered is not asked about again");

    chat = await start(editor, "Write two");
    await waitForCard(chat, "Create two.txt");
    await editor.page.reload();
    await toasts.first().waitFor({ timeout: DEADLINE * 2 });
    assert.equal(await toasts.count(), 1);
    assert.match((await toasts.first().textContent()) ?? "", /Create two\.txt/);

    // The first window holds the task; the second one says so and can begin another.
    await editor.openSecondWindow();
    await editor.pressInMessage("another window or daemon works on the task “Write two”", "Read It");
    await editor.page.locator(".tab.active", { hasText: "Write two (read-only).md" }).waitFor({ timeout: DEADLINE });
    await until(async () => (await drawn(editor)).includes("Write two"), "the task can be read");
    // So can what the history lists.
    await editor.command("Roo: Open History");
    chat = await editor.chat();
    await chat.locator("#history .entry", { hasText: "Write two" }).click();
    await editor.message("another window or daemon works on the task “Write two”");
    chat = await start(editor, "Say something");
    await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });
  } catch (error) {
    throw await editor.failed("reload", error);
  } finally {
    await editor.stop();
  }
});
