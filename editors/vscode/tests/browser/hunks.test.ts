// An edit that is answered change by change, as far as the server takes such answers.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Frame, Locator } from "playwright-core";
import { DEADLINE, Editor, given, until } from "./editor.ts";
import { waitForCard } from "./scenario.ts";

const BEFORE = "def total(items):\n    sum = 0\n    for item in items:\n        sum += item.price\n    return sum\n\ndef count(items):\n    return len(items)\n\ndef first(items):\n    return items[0]\n";
const PROPOSED = "def total(items):\n    return sum(item.price for item in items)\n\ndef count(items):\n    return len(list(items))\n\ndef first(items):\n    return next(iter(items))\n";
const REVIEWED = "def total(items):\n    return sum(item.price for item in items)\n\ndef count(items):\n    return items.count()\n\ndef first(items):\n    return items[0]\n";
const SCRIPT = JSON.stringify({
  turns: [
    { calls: [{ tool: "read_file", params: { path: "cart.py" } }] },
    { calls: [{ tool: "write_to_file", params: { path: "cart.py", content: PROPOSED } }] },
    { when: { contains: "Keep the index" }, calls: [{ tool: "attempt_completion", params: { result: "The words have arrived." } }] },
    { repeat: true, calls: [{ tool: "attempt_completion", params: { result: "Done." } }] },
  ],
});

const takesHunks = spawnSync(given("ROO_LSP"), ["schema", "protocol"], { encoding: "utf8" }).stdout.includes('"HunkAnswer"');

/** An editor in which the edit waits. */
async function reviewing(name: string, act: (editor: Editor, chat: Frame) => Promise<void>): Promise<void> {
  const editor = await Editor.start({
    turns: SCRIPT,
    settings: { "roo.mode": "code" },
    size: { width: 1280, height: 1000 },
    workspace: (directory) => writeFileSync(join(directory, "cart.py"), BEFORE),
  });
  try {
    const chat = await editor.newTask("code");
    await chat.locator("#prompt").fill("Shorten it");
    await chat.locator("#prompt").press("Enter");
    await waitForCard(chat, "cart.py");
    await act(editor, chat);
  } catch (error) {
    throw await editor.failed(name, error);
  } finally {
    await editor.stop();
  }
}

test("in the card, one change is refused with words, one is the user's own, and the rest is as proposed", async () => {
  await reviewing("hunks", async (editor, chat) => {
    if (!takesHunks) {
      // The change as a whole is what can be answered.
      assert.equal(await chat.locator("[data-hunk]").count(), 0);
      await chat.locator('[data-option="allow_once"]').click();
      await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });
      assert.equal(editor.read("cart.py"), PROPOSED);
      return;
    }
    await chat.locator('[data-hunk="h3"]').waitFor({ timeout: DEADLINE });
    await chat.locator('[data-hunk="h3"] .toggle', { hasText: "Refuse" }).press("Enter");
    await editor.page.keyboard.type("Keep the index");
    await chat.locator('[data-hunk="h2"] .toggle', { hasText: "Edit" }).press("Enter");
    await chat.locator('[data-hunk="h2"] textarea').fill("    return items.count()\n");
    // The decisions go along with the answer by the key as well.
    await editor.chatWithKeys();
    await editor.page.keyboard.press("Control+Shift+Enter");
    await chat.locator(".said.completion_result", { hasText: "The words have arrived." }).waitFor({ timeout: DEADLINE });
    assert.equal(editor.read("cart.py"), REVIEWED);
  });
});

/** The thread of a change in the diff in front. */
function threadOf(editor: Editor, number: number): Locator {
  return editor.page.locator(".editor.modified .review-widget", { hasText: `Change ${number} of 3` });
}

/** Waits until the new side of the diff holds lines, or doesn't. */
async function modified(editor: Editor, holds: string, lacks: string): Promise<void> {
  const drawn = async (): Promise<string> => (await editor.page.locator(".editor.modified .view-line").allTextContents()).join("\n").replaceAll("\u00a0", " ");
  await until(async () => (await drawn()).includes(holds) && !(await drawn()).includes(lacks), `the diff shows ${holds} and not ${lacks}`);
}

for (const by of ["mouse", "keyboard"] as const) {
  test(`in the diff, changes are refused with words, rewritten and accepted again: ${by}`, { skip: !takesHunks }, async () => {
    await reviewing(`diff-${by}`, async (editor, chat) => {
      const { page } = editor;
      await chat.locator('[data-hunk="h3"]').waitFor({ timeout: DEADLINE });
      await chat.locator("[data-show-diff]").press("Enter");
      await modified(editor, "next(iter(items))", "items[0]");
      const goTo = async (line: number): Promise<void> => {
        await editor.command("View: Focus Active Editor Group");
        await editor.goToLine(line);
        await page.locator(".editor.modified .monaco-editor.focused, .editor.modified.focused, .monaco-editor.modified.focused").first().waitFor({ timeout: DEADLINE });
      };

      // The first one is refused, and accepted again.
      if (by === "mouse") {
        await threadOf(editor, 1).locator('[aria-label^="Refuse This Change"]:visible').first().click();
        await modified(editor, "sum += item.price", "sum(item.price");
        await threadOf(editor, 1).locator('[aria-label^="Accept This Change"]:visible').first().click();
      } else {
        await goTo(2);
        await page.keyboard.press("n");
        await editor.answerInput("");
        await modified(editor, "sum += item.price", "sum(item.price");
        await goTo(2);
        await page.keyboard.press("y");
      }
      await modified(editor, "sum(item.price", "sum += item.price");

      // The second one is rewritten.
      if (by === "mouse") {
        await threadOf(editor, 2).locator('[aria-label^="Edit This Change"]:visible').first().click();
      } else {
        await goTo(5);
        await page.keyboard.press("e");
      }
      const lines = chat.getByLabel("Your lines, Change 2 of 3");
      await until(() => lines.evaluate((field) => field === document.activeElement && document.hasFocus()), "the lines can be rewritten");
      await lines.fill("    return items.count()\n");
      await modified(editor, "items.count()", "len(list(items))");

      // The third one is refused with words.
      if (by === "mouse") {
        await threadOf(editor, 3).locator(".review-thread-reply-button").click();
        await page.keyboard.type("Keep the index");
        await threadOf(editor, 3).locator(".monaco-button", { hasText: "Refuse This Change" }).click();
      } else {
        await goTo(8);
        await page.keyboard.press("n");
        await editor.answerInput("Keep the index");
      }
      await modified(editor, "items[0]", "next(iter(items))");

      // The card says the same, and the answer takes all of it along.
      await until(async () => (await chat.locator('[data-option="allow_once"]').textContent()) === "Allow 2 of 3", "the card says how many are allowed");
      assert.equal(await chat.getByLabel("Why not, Change 3 of 3").inputValue(), "Keep the index");
      if (by === "mouse") {
        await page.locator(".editor-actions .action-label[aria-label*='Allow the Requested Action']").first().click();
      } else {
        await goTo(1);
        await page.keyboard.press("Control+Shift+Enter");
      }
      await chat.locator(".said.completion_result", { hasText: "The words have arrived." }).waitFor({ timeout: DEADLINE });
      assert.equal(editor.read("cart.py"), REVIEWED);
      await page.locator(".tab", { hasText: "cart.py" }).waitFor({ state: "detached", timeout: DEADLINE });
    });
  });
}
