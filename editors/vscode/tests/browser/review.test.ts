// A change of several files, of which the user chooses in VS Code's own Refactor Preview.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { tmpdir } from "node:os";
import { DEADLINE, Editor, until } from "./editor.ts";
import { waitForCard } from "./scenario.ts";

const patch = `*** Begin Patch
*** Update File: a.txt
-old
+new
*** Update File: b.txt
-old
+new
*** Add File: docs/new.md
+# New
*** End Patch
`;

/** Asks for one patch, and ends with what came of it. */
const script = JSON.stringify({
  turns: [
    { calls: [{ tool: "read_file", params: { files: [{ path: "a.txt" }, { path: "b.txt" }] } }] },
    { calls: [{ tool: "apply_patch", params: { patch } }] },
    { when: { contains: "left out by the user" }, calls: [{ tool: "attempt_completion", params: { result: "Some of it." } }] },
    { when: { contains: "accepted none of them" }, calls: [{ tool: "complete_with_failure", params: { reason: "None of it." } }] },
    { calls: [{ tool: "attempt_completion", params: { result: "All of it." } }] },
  ],
});

/** An editor in which the patch waits, with its preview open. */
async function reviewing(act: (editor: Editor, preview: ReturnType<Editor["page"]["locator"]>) => Promise<void>): Promise<void> {
  const place = join(tmpdir(), `roo-review-${process.pid}-${Date.now()}.yaml`);
  writeFileSync(place, script);
  const editor = await Editor.start({
    script: place,
    settings: { "roo.mode": "code" },
    workspace: (directory) => {
      for (const name of ["a.txt", "b.txt"]) writeFileSync(join(directory, name), "old\n");
    },
  });
  try {
    // One file is open, the others are not.
    await editor.open("a.txt");
    const chat = await editor.newTask("code");
    await editor.page.keyboard.type("Patch it");
    await editor.page.keyboard.press("Enter");
    await waitForCard(chat, "Change 3 files");
    await editor.command("Roo: Choose Changes in the Refactor Preview");
    const preview = editor.page.locator(".bulk-edit-panel");
    for (const name of ["a.txt", "b.txt", "new.md"]) {
      await preview.locator(".monaco-list-row", { hasText: name }).first().waitFor({ timeout: DEADLINE });
    }
    assert.equal(editor.read("b.txt"), "old\n", "nothing has happened before the user says so");
    await act(editor, preview);
  } catch (error) {
    throw await editor.failed("review", error);
  } finally {
    await editor.stop();
  }
}

test("what is ticked happens, and the model is told of the rest", async () => {
  await reviewing(async (editor, preview) => {
    // What needs a confirmation is not ticked until the user does it.
    for (const name of ["a.txt", "new.md"]) {
      await preview.locator(".monaco-list-row", { hasText: name }).first().locator(".monaco-custom-toggle, .monaco-checkbox, input").first().click();
    }
    await preview.locator(".monaco-button", { hasText: "Apply" }).first().click();
    const chat = await editor.chat();
    await chat.locator("#feed .item", { hasText: "Some of it." }).first().waitFor({ timeout: DEADLINE });
    await until(() => existsSync(join(editor.workspace, "docs/new.md")), "docs/new.md is there");
    await editor.command("File: Save All Files");
    await until(() => editor.read("a.txt") === "new\n", "a.txt is changed");
    assert.equal(editor.read("docs/new.md"), "# New\n");
    assert.equal(editor.read("b.txt"), "old\n");
  });
});

test("what is discarded is denied", async () => {
  await reviewing(async (editor, preview) => {
    await preview.locator(".monaco-button", { hasText: "Discard" }).first().click();
    const chat = await editor.chat();
    await chat.locator("#feed .item", { hasText: "None of it." }).first().waitFor({ timeout: DEADLINE });
    assert.equal(editor.read("a.txt"), "old\n");
    assert.equal(editor.read("b.txt"), "old\n");
    assert.ok(!existsSync(join(editor.workspace, "docs/new.md")));
  });
});
