// Going back to before a message, and undoing that, as far as the server can.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, given, until } from "./editor.ts";
import { waitForCard } from "./scenario.ts";

const SCRIPT = JSON.stringify({
  turns: [
    { mode: "code", when: { contains: "Write one" }, calls: [{ tool: "write_to_file", params: { path: "one.txt", content: "x\n" } }] },
    { mode: "code", repeat: true, calls: [{ tool: "attempt_completion", params: { result: "Done." } }] },
  ],
});
const canRestore = spawnSync(given("ROO_LSP"), ["schema", "protocol"], { encoding: "utf8" }).stdout.includes("roo/checkpoint/restore");

test("files are restored to before a message, as was shown, and the restore is undone", { skip: !canRestore }, async () => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code" } });
  const { page } = editor;
  try {
    const chat = await editor.newTask("code");
    await chat.locator("#prompt").fill("Write one");
    await chat.locator("#prompt").press("Enter");
    await waitForCard(chat, "Create one.txt");
    await chat.locator('[data-option="allow_once"]').click();
    await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });
    await until(async () => (await chat.locator("#standing").textContent())?.includes("completed") === true, "the task is over");
    const file = join(editor.workspace, "one.txt");
    assert.ok(existsSync(file));

    await chat.locator(".said .restore").first().press("Enter");
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "Conversation" }).first().waitFor({ timeout: DEADLINE });
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const dialog = page.locator(".monaco-dialog-box", { hasText: "Restore this state?" });
    await dialog.waitFor({ timeout: DEADLINE });
    assert.match((await dialog.textContent()) ?? "", /one\.txt \(deleted\)/);
    assert.ok(existsSync(file), "nothing has happened before the user says so");
    await dialog.locator(".monaco-button", { hasText: /^Restore$/ }).click();
    await until(() => !existsSync(file), "one.txt is gone");
    await chat.locator("#feed .note.info", { hasText: "Restored 1 file" }).waitFor({ timeout: DEADLINE });
    await editor.pressInMessage("Roo: restored", "Undo");
    await until(() => existsSync(file) && editor.read("one.txt") === "x\n", "one.txt is back");

    // Another message in the place of the first one, with the files of that time.
    await chat.locator(".said .edit").first().press("Enter");
    await chat.locator(".said textarea").first().fill("Write nothing");
    await chat.locator(".said [data-rewrite]").first().click();
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "The files go back too" }).click({ timeout: DEADLINE });
    const again = page.locator(".monaco-dialog-box", { hasText: "Go on from the changed message?" });
    await again.waitFor({ timeout: DEADLINE });
    assert.match((await again.textContent()) ?? "", /one\.txt \(deleted\)/);
    await again.locator(".monaco-button", { hasText: /^Go On$/ }).click();
    await until(() => !existsSync(file), "one.txt is gone again");
    await chat.locator(".said", { hasText: "Write nothing" }).last().waitFor({ timeout: DEADLINE });
    await until(async () => (await chat.locator("#standing").textContent())?.includes("completed") === true, "the task has gone on");

    await chat.locator("#prompt").fill("Go on");
    await chat.locator("#prompt").press("Enter");
    await chat.locator(".said.user_feedback, .said.text", { hasText: "Go on" }).first().waitFor({ timeout: DEADLINE });
    await until(async () => (await chat.locator("#standing").textContent())?.includes("completed") === true, "the task is over again");
    await chat.locator(".said .restore").last().press("Enter");
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "Neither: Fork" }).click({ timeout: DEADLINE });
    await chat.locator("#feed .note.info", { hasText: "Forked from" }).waitFor({ timeout: DEADLINE });
    assert.ok(!existsSync(file));
  } catch (error) {
    throw await editor.failed("restore", error);
  } finally {
    await editor.stop();
  }
});
