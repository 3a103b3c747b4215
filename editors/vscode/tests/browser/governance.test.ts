// What the user has decided for good, and what the workspace declares: seen, and changed, with the keyboard alone.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";

const SCRIPT = `turns:
  - mode: code
    when: { contains: "Say it" }
    calls:
      - tool: execute_command
        params: { command: "printf hello" }
  - mode: code
    repeat: true
    calls:
      - tool: attempt_completion
        params: { result: "Heard." }
`;

const INTENTS = (status: string): string => `active_intents:
  - id: INT-001
    name: A polite greeting
    status: ${status}
    owned_scope: ["greeting.sh"]
    constraints: ["Stay short"]
    acceptance_criteria: ["It greets"]
  - id: INT-002
    name: A page about it
    status: COMPLETED
    owned_scope: ["docs/**"]
`;

test("standing rules and intents are seen, and changed with the keyboard", async () => {
  const script = join(tmpdir(), `roo-governance-${process.pid}.yaml`);
  writeFileSync(script, SCRIPT);
  const editor = await Editor.start({ settings: { "roo.mode": "code", "roo.autoApprove": { execute: { mode: "rules" } } }, script });
  const { page } = editor;
  try {
    const start = async (prompt: string): Promise<void> => {
      await editor.newTask("code");
      await page.keyboard.type(prompt);
      await page.keyboard.press("Enter");
    };

    await editor.command("Roo: Review Standing Rules…");
    await editor.message("this workspace has no standing rules");
    await start("Say it");
    const chat = await editor.chat();
    await chat.locator("#waiting .approval summary").press("Enter");
    // For this command alone, or for all that only look at files.
    const always = chat.locator('#waiting .approval [data-option="allow_always"]');
    await always.filter({ hasText: "Always allow the usual commands that look at files" }).waitFor({ timeout: DEADLINE });
    await always.filter({ hasText: "Always allow `printf hello`" }).press("Enter");
    await chat.locator('#waiting [data-confirm="allow_always"]').press("Enter");
    await chat.locator(".said.completion_result", { hasText: "Heard." }).waitFor({ timeout: DEADLINE });
    await editor.command("Roo: Review Standing Rules…");
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "printf hello" }).waitFor({ timeout: DEADLINE });
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Space");
    await page.locator(".quick-input-list .monaco-list-row input:checked, .quick-input-list .monaco-list-row .monaco-checkbox.checked").first().waitFor({ timeout: DEADLINE });
    await page.keyboard.press("Enter");
    await editor.message("removed rules");
    await start("Say it once more");
    await chat.locator("#waiting .approval", { hasText: "printf hello" }).waitFor({ timeout: DEADLINE });

    // The view is there once the workspace has intents.
    const rows = page.locator(".pane", { hasText: "Intents" }).last().locator(".monaco-list-row");
    const labels = (): Promise<string[]> => rows.evaluateAll((all) => all.map((row) => row.getAttribute("aria-label") ?? ""));
    const pane = page.locator(".pane-header", { hasText: "Intents" });
    assert.equal(await pane.count(), 0);
    mkdirSync(join(editor.workspace, ".orchestration"), { recursive: true });
    const file = join(editor.workspace, ".orchestration/active_intents.yaml");
    writeFileSync(file, INTENTS("BLOCKED"));
    await pane.waitFor({ timeout: DEADLINE });
    await editor.command("Roo: Focus on Intents View");
    await until(async () => (await labels()).join("; ") === "INT-001: A polite greeting, blocked; INT-002: A page about it, completed", "both are listed").catch(async () => {
      assert.deepEqual(await labels(), []);
    });
    writeFileSync(file, INTENTS("PENDING"));
    await until(async () => (await labels())[0]?.includes("pending") === true, "the view follows the file");

    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await until(async () => (await labels()).length === 5, "what it owns and must hold is shown");
    assert.deepEqual((await rows.allTextContents()).slice(1, 4), ["greeting.sh", "Stay short", "It greets"]);
    // By the context menu, as a key opens it.
    const choose = async (title: string): Promise<void> => {
      await page.keyboard.press("Shift+F10");
      const entries = page.locator(".monaco-menu .action-item:not(.disabled)");
      await entries.filter({ hasText: title }).first().waitFor({ timeout: DEADLINE });
      await until(async () => {
        await page.keyboard.press("ArrowDown");
        return (await page.locator(".monaco-menu .action-item.focused").textContent())?.includes(title) === true;
      }, `${title} is chosen`);
      await page.keyboard.press("Enter");
    };
    await choose("Assign the Shown Request to This Intent");
    await chat.locator("#feed", { hasText: "Works on the intent INT-001" }).waitFor({ timeout: DEADLINE });
    await until(async () => (await labels())[0]?.includes("in progress") === true, "it is running");

    await choose("Open the Intents File");
    await page.locator(".tab.active", { hasText: "active_intents.yaml" }).waitFor({ timeout: DEADLINE });
    await page.locator(".statusbar-item", { hasText: "Ln 2, Col" }).waitFor({ timeout: DEADLINE });

    writeFileSync(file, "active_intents: 7\n");
    await until(async () => (await rows.first().textContent())?.includes("active_intents") === true, "what is wrong is told");
  } catch (error) {
    throw await editor.failed("governance", error);
  } finally {
    await editor.stop();
    rmSync(script);
  }
});
