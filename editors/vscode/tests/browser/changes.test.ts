// What a task has changed: listed, compared, opened in its place, and undone.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";
import { waitForCard } from "./scenario.ts";

const SCRIPT = JSON.stringify({
  turns: [
    { mode: "code", when: { contains: "Write one" }, calls: [{ tool: "write_to_file", params: { path: "one.txt", content: "x\n" } }] },
    { mode: "code", calls: [{ tool: "insert_content", params: { path: "greeting.sh", line: 2, content: "# Greets." } }] },
    { mode: "code", repeat: true, calls: [{ tool: "attempt_completion", params: { result: "Done." } }] },
  ],
});

test("the changes of a task are listed, compared, gone to and undone one by one", async () => {
  const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code" } });
  const { page } = editor;
  try {
    const chat = await editor.newTask("code");
    await chat.locator("#prompt").fill("Write one");
    await chat.locator("#prompt").press("Enter");
    for (const title of ["Create one.txt", "Edit greeting.sh"]) {
      await waitForCard(chat, title);
      await chat.locator('[data-option="allow_once"]').click();
    }
    await chat.locator(".said.completion_result", { hasText: "Done." }).waitFor({ timeout: DEADLINE });

    const rows = page.locator(".quick-input-list .monaco-list-row");
    const row = (text: string) => rows.filter({ hasText: text }).first();
    // An editor that is still being opened takes the focus, and a list without it is closed.
    const shows = (): Promise<void> =>
      until(async () => {
        await editor.command("Roo: Changes of the Task…");
        return row("Show all changes")
          .waitFor({ timeout: 10_000 })
          .then(() => true, () => false);
      }, "the list of changes");
    await shows();
    await row("2: # Greets.").click();
    await page.locator(".tab.active", { hasText: "greeting.sh" }).waitFor({ timeout: DEADLINE });
    await page.locator(".statusbar-item", { hasText: "Ln 3, Col 1" }).waitFor({ timeout: DEADLINE });

    await shows();
    await row("Show all changes").click();
    await page.locator(".tab.active", { hasText: "Changes of the task" }).waitFor({ timeout: DEADLINE });

    await shows();
    const file = row("one.txt");
    await file.hover();
    await file.locator('.quick-input-list-entry-action-bar a[aria-label="Undo"]').click({ timeout: DEADLINE });
    await until(() => !existsSync(join(editor.workspace, "one.txt")), "one.txt is gone");
    await until(async () => (await row("one.txt").count()) === 0 && (await row("greeting.sh").count()) === 1, "the list has what is left");
    assert.match(editor.read("greeting.sh"), /# Greets\./);
  } catch (error) {
    throw await editor.failed("changes", error);
  } finally {
    await editor.stop();
  }
});
