// The scenario with the typed protocol switched off: commands, input boxes and the server's own messages.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";
import { keyboard } from "./hands.ts";
import { buffer, drawn } from "./scenario.ts";

/** Presses a button of the message that says this. */
async function press(editor: Editor, message: string, button: string): Promise<void> {
  const toast = editor.page.locator(".notification-toast", { hasText: message }).last();
  await toast.waitFor({ timeout: DEADLINE });
  await toast.locator(".monaco-button", { hasText: new RegExp(`^${button}$`) }).first().click({ timeout: DEADLINE });
}

test("the scenario runs by plain LSP", async () => {
  const editor = await Editor.start({ settings: { "roo.protocol.enabled": false } });
  try {
    await editor.open("greeting.sh");
    await editor.page.keyboard.press("Control+End");
    await editor.page.keyboard.type("# not saved yet\n");
    await keyboard.select(editor, 4, 5);
    await editor.command("Roo: New Task from Selection");
    await editor.answerInput("Greet politely");

    await press(editor, "How polite should the greeting be?", "Formal: Good day");

    await press(editor, "docs/greeting.md", "Allow");
    await until(() => existsSync(join(editor.workspace, "docs/greeting.md")), "docs/greeting.md is on disk");

    await press(editor, "greeting.sh", "Allow");
    await editor.page.locator(".notification-toast", { hasText: "sh greeting.sh" }).waitFor({ timeout: DEADLINE });
    const text = await buffer(editor, "greeting.sh");
    assert.match(text, /echo "Good day, \$name\."/);
    assert.match(text, /# not saved yet/);
    // By plain LSP nobody saves for the user.
    await editor.page.keyboard.press("Control+s");
    await until(() => editor.read("greeting.sh").includes("# not saved yet"), "greeting.sh is saved");
    await press(editor, "sh greeting.sh", "Allow");

    // What Code writes comes after the command; the server says how the tree stands.
    await until(async () => {
      await editor.command("Roo: Show the Invocation Tree");
      await editor.page.locator(".tab.active", { hasText: "tree.txt" }).waitFor({ timeout: DEADLINE });
      const text = await drawn(editor);
      return ["Greet politely", "Greet formally", "Describe the greeting", "Change the greeting"].every((title) => text.includes(title));
    }, "the tree has four branches");

    await editor.command("Roo: Cancel the Task");
    await editor.page.locator(".notification-toast", { hasText: "cancelled" }).first().waitFor({ timeout: DEADLINE });
    await editor.command("Roo: Resume the Task");
    await editor.page.locator(".notification-toast", { hasText: "greeting.sh greets formally" }).first().waitFor({ timeout: DEADLINE });
    assert.deepEqual(editor.foreign, []);
  } catch (error) {
    throw await editor.failed("plain", error);
  } finally {
    await editor.stop();
  }
});
