// The scenario with the mouse, and how the chat looks and reads meanwhile in every kind of theme: checked by axe,
// measured for what is cut, and pictured. UPDATE_PICTURES=1 takes the pictures into docs/src/pictures.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Frame } from "playwright-core";
import { DEADLINE, Editor, THEMES, until } from "./editor.ts";
import { mouse } from "./hands.ts";
import { cut, violations } from "./looks.ts";
import { begin, play, waitForCard, type Step } from "./scenario.ts";

const root = new URL("../../../../", import.meta.url);
const pictures = fileURLToPath(new URL(process.env["UPDATE_PICTURES"] ? "docs/src/pictures/" : "target/editors/vscode/pictures/", root));
async function wear(editor: Editor, chat: Frame, theme: keyof typeof THEMES): Promise<void> {
  editor.set({ "workbench.colorTheme": THEMES[theme] });
  const kind = { dark: "vscode-dark", light: "vscode-light", "high-contrast": "vscode-high-contrast", "high-contrast-light": "vscode-high-contrast-light" }[theme];
  await until(() => chat.evaluate((name) => document.body.classList.contains(name), kind), `the theme is ${theme}`);
  // The workbench is redrawn within a few frames.
  await editor.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

test("the scenario runs with the mouse alone, whole and readable in every theme", async () => {
  const editor = await Editor.start({ size: { width: 1280, height: 860 } });
  try {
    const look = async (step: Step, chat: Frame): Promise<void> => {
      if (step !== "question" && step !== "diff" && step !== "completed") return;
      for (const theme of Object.keys(THEMES) as (keyof typeof THEMES)[]) {
        await wear(editor, chat, theme);
        assert.deepEqual(await violations(chat), [], `${step}, ${theme}`);
        assert.deepEqual(await cut(chat), [], `${step}, ${theme}`);
        if (step !== "question") {
          const end = await chat.locator("#feed").evaluate((feed) => feed.scrollHeight - feed.scrollTop - feed.clientHeight);
          assert.ok(end < 40, `the newest is in sight: ${step}, ${theme}, ${end}`);
        }
        if (step === "diff" && theme !== "high-contrast-light") {
          await editor.page.screenshot({ path: join(pictures, `vscode-${theme}.png`), animations: "disabled", caret: "hide" });
        }
      }
      await wear(editor, chat, "dark");
    };
    await play(editor, mouse, look);
    assert.deepEqual(editor.foreign, [], "the page asked no other host for anything");
  } catch (error) {
    throw await editor.failed("looks", error);
  } finally {
    await editor.stop();
  }
});

test("a narrow view cuts nothing, and says what matters to a screen reader", async () => {
  const editor = await Editor.start({ size: { width: 640, height: 560 } });
  try {
    const chat = await begin(editor, mouse);
    const policy = (await chat.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content")) ?? "";
    assert.match(policy, /^default-src 'none'; style-src \S+(?: \S+)*; script-src 'nonce-[\w-]{20,}'; img-src data:; form-action 'none'$/);
    assert.ok(!policy.includes("unsafe"));
    await waitForCard(chat, "How polite should the greeting be?");
    await until(async () => ((await chat.locator("#announcer").textContent()) ?? "").includes("Question: How polite"), "the question is told");
    assert.deepEqual(await violations(chat), []);
    assert.deepEqual(await cut(chat), []);
    await chat.locator('#waiting .suggestion:has-text("Formal: Good day")').click({ timeout: DEADLINE });
    await waitForCard(chat, "docs/greeting.md");
    await until(async () => ((await chat.locator("#announcer").textContent()) ?? "").includes("Permission is asked: Create docs/greeting.md"), "the permission is told");
    assert.deepEqual(await cut(chat), []);
  } catch (error) {
    throw await editor.failed("narrow", error);
  } finally {
    await editor.stop();
  }
});
