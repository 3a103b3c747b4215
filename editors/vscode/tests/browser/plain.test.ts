// The scenario with the typed protocol switched off: once by commands, input boxes and the server's own messages, and
// once by code actions in the files and in the task document, with the keyboard alone.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";
import { keyboard } from "./hands.ts";
import { drawn, shows } from "./scenario.ts";

/** Every command asks as it is: what is offered for a whole project has tests of its own. */
const ASKS = { "roo.autoApprove": { execute: { mode: "rules" } } };

test("the scenario runs by plain LSP, by commands and messages", async () => {
  const editor = await Editor.start({ settings: { ...ASKS, "roo.protocol.enabled": false } });
  try {
    await editor.open("greeting.sh");
    await editor.page.keyboard.press("Control+End");
    await editor.page.keyboard.type("# not saved yet\n");
    await keyboard.select(editor, 4, 5);
    await editor.command("Roo: New Task from Selection");
    await editor.answerInput("Greet politely");

    await editor.pressInMessage("How polite should the greeting be?", "Formal: Good day");

    await editor.pressInMessage("docs/greeting.md", "Allow");
    await until(() => existsSync(join(editor.workspace, "docs/greeting.md")), "docs/greeting.md is on disk");

    await editor.pressInMessage("greeting.sh", "Allow");
    await editor.message("sh greeting.sh");
    await shows(editor, "greeting.sh", /echo "Good day, \$name\."/, /# not saved yet/);
    // By plain LSP nobody saves for the user.
    await editor.page.keyboard.press("Control+s");
    await until(() => editor.read("greeting.sh").includes("# not saved yet"), "greeting.sh is saved");
    await editor.pressInMessage("sh greeting.sh", "Allow");

    // What Code writes comes after the command; the server says how the tree stands.
    await until(async () => {
      await editor.command("Roo: Show the Invocation Tree");
      await editor.page.locator(".tab.active", { hasText: "tree.txt" }).waitFor({ timeout: DEADLINE });
      const text = await drawn(editor);
      return ["Greet politely", "Greet formally", "Describe the greeting", "Change the greeting"].every((title) => text.includes(title));
    }, "the tree has four branches");

    await editor.command("Roo: Cancel the Task");
    await editor.message("cancelled");
    await editor.command("Roo: Resume the Task");
    await editor.message("greeting.sh greets formally");
    assert.deepEqual(editor.foreign, []);
  } catch (error) {
    throw await editor.failed("plain", error);
  } finally {
    await editor.stop();
  }
});

/** The task document, in front and in the focus. */
async function taskDocument(editor: Editor): Promise<void> {
  await editor.command("Roo: Open the Task Document");
  await editor.page.locator(".tab.active", { hasText: "task.md" }).waitFor({ timeout: DEADLINE });
  await editor.page.locator(".editor-instance .monaco-editor.focused").waitFor({ timeout: DEADLINE });
}

/** What the task document says where it grows. */
async function says(editor: Editor, text: string | RegExp): Promise<void> {
  const fits = (drawn: string): boolean => (typeof text === "string" ? drawn.includes(text) : text.test(drawn));
  await until(async () => {
    await editor.page.keyboard.press("Control+End");
    return fits(await drawn(editor));
  }, `the task document says ${text}`).catch(async (error: unknown) => {
    throw new Error(`${String(error)}; it says:\n${await drawn(editor)}`);
  });
}

/** What the task document says as a whole in its editor, once this is in it. */
async function whole(editor: Editor, holds: string): Promise<string> {
  let text = "";
  await until(async () => {
    await editor.page.keyboard.press("Control+a");
    await editor.page.keyboard.press("Control+c");
    text = await editor.page.evaluate(() => navigator.clipboard.readText());
    return text.includes(holds);
  }, `the task document holds ${holds}`);
  await editor.page.keyboard.press("Control+End");
  return text;
}

test("the scenario runs by plain LSP, by code actions and the task document", async () => {
  const editor = await Editor.start({ settings: { ...ASKS, "roo.protocol.enabled": false, "editor.wordWrap": "off" } });
  const { keyboard: keys } = editor.page;
  try {
    // 1 and 2: the server opens a document for the prompt.
    await editor.open("greeting.sh");
    await keys.press("Control+End");
    await keys.type("# not saved yet\n");
    await keyboard.select(editor, 4, 5);
    await editor.act("Roo: write a request about lines 4-5");
    await editor.page.locator(".tab.active", { hasText: "new-request.md" }).waitFor({ timeout: DEADLINE });
    await until(async () => (await drawn(editor)).includes("greeting.sh, lines 4-5"), "the request is about the lines");
    await keys.press("Control+End");
    await keys.type("Greet politely");
    await editor.act("Roo: send the prompt");

    // The server opens the task document.
    await editor.page.locator(".tab", { hasText: "task.md" }).waitFor({ timeout: DEADLINE });
    await editor.page.locator(".view-line", { hasText: "How polite should the greeting be?" }).first().waitFor({ timeout: DEADLINE });

    // 3: the question.
    await taskDocument(editor);
    await editor.act("Roo: answer 1: Formal: Good day");

    // 4: a new file, after a look at its diff.
    await says(editor, "Waits for you: Create docs/greeting.md");
    await editor.act("Roo: show Create docs/greeting.md");
    await editor.page.locator(".tab.active", { hasText: ".diff" }).waitFor({ timeout: DEADLINE });
    await until(async () => (await drawn(editor)).includes("+# The greeting"), "the diff is shown");
    assert.ok(!existsSync(join(editor.workspace, "docs/greeting.md")), "looking decides nothing");
    await taskDocument(editor);
    await editor.act("Roo: Allow: Create docs/greeting.md");
    await until(() => existsSync(join(editor.workspace, "docs/greeting.md")), "docs/greeting.md is on disk");

    // 5: an edit of a file that is open and not saved.
    await says(editor, "Waits for you: Edit greeting.sh");
    await says(editor, /-echo "hey \$name"\n\+echo "Good day, \$name\."/);
    await editor.act("Roo: Allow: Edit greeting.sh");
    await says(editor, "Waits for you: Run sh greeting.sh");
    await shows(editor, "greeting.sh", /echo "Good day, \$name\."/, /# not saved yet/);
    assert.match(editor.read("greeting.sh"), /echo "hey \$name"\n/, "the file on disk is its user's to save");
    await keys.press("Control+s");
    await until(() => editor.read("greeting.sh").includes("# not saved yet"), "greeting.sh is saved");

    // 6: the command.
    await taskDocument(editor);
    await says(editor, "Waits for you: Run sh greeting.sh");
    await editor.act("Roo: Allow: Run sh greeting.sh");
    await says(editor, /^Good day, world\.$/m);

    await says(editor, "It prints the formal greeting");
    const lengths = new Set<number>();
    await until(async () => {
      lengths.add((await drawn(editor)).replace(/[^]*It prints the formal/, "").length);
      return lengths.size >= 4;
    }, "the document grows piece by piece");

    // 7: the tree, as symbols and drawn.
    await keys.press("Control+Shift+o");
    for (const branch of ["🆕 new-task", "🪃 Greet formally (orchestrator)", "🏗️ Describe the greeting (architect)", "💻 Change the greeting (code)"]) {
      await editor.page.locator(`.quick-input-list .monaco-list-row[aria-label^="${branch}"]`).first().waitFor({ timeout: DEADLINE });
    }
    await keys.press("Escape");
    await editor.act("Roo: show the tree");
    await editor.page.locator(".tab.active", { hasText: "tree.txt" }).waitFor({ timeout: DEADLINE });
    await until(async () => /Greet politely[^]*Greet formally[^]*├── .*Describe the greeting[^]*└── .*Change the greeting/.test(await drawn(editor)), "the tree is drawn");

    // A page that dies takes nothing along: the next one shows the same request, which can be gone on with.
    await taskDocument(editor);
    const before = await whole(editor, "It prints the formal");
    await editor.crash();
    await taskDocument(editor);
    await editor.act("Roo: resume the request");
    await says(editor, "It prints the formal greeting");
    const after = await whole(editor, "It prints the formal");
    assert.ok(after.startsWith(before.slice(0, before.indexOf("It prints the formal"))), `it said\n${before}\nand says\n${after}`);

    // 8 and 9: cancelled while it writes, and resumed.
    await editor.act("Roo: cancel the request");
    await says(editor, "*It has ended.");
    await editor.act("Roo: resume the request");
    await says(editor, "greeting.sh greets formally, and docs/greeting.md describes it.");
    const told = await whole(editor, "greeting.sh greets formally");
    for (const said of ["Greet politely", "Formal: Good day", "Describe the greeting", "Change the greeting", "Good day, world."]) assert.ok(told.includes(said), said);
    assert.deepEqual(editor.foreign, []);
  } catch (error) {
    throw await editor.failed("plain-document", error);
  } finally {
    await editor.stop();
  }
});
