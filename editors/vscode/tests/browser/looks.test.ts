// The scenario with the mouse, and how the chat looks and reads meanwhile in every kind of theme: checked by axe,
// measured for what is cut, and pictured. UPDATE_PICTURES=1 takes the pictures into docs/src/pictures.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Frame } from "playwright-core";
import { DEADLINE, Editor, THEMES, until } from "./editor.ts";
import { mouse } from "./hands.ts";
import { begin, play, waitForCard, type Step } from "./scenario.ts";

const root = new URL("../../../../", import.meta.url);
const pictures = fileURLToPath(new URL(process.env["UPDATE_PICTURES"] ? "docs/src/pictures/" : "target/editors/vscode/pictures/", root));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What axe finds wrong with the page. */
async function violations(chat: Frame): Promise<string[]> {
  await chat.evaluate(axe);
  // A view is not a page: it has no landmarks of its own to begin with.
  const found = await chat.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then((result) => result.violations)`);
  return (found as Violation[]).flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`));
}

/** Buttons and fields that are cut or outside of the page. */
async function cut(chat: Frame): Promise<string[]> {
  return chat.evaluate(() => {
    const wrong: string[] = [];
    if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
    // A page that scrolls as one may be higher.
    if (innerHeight > 480 && document.body.scrollHeight > innerHeight + 1) wrong.push(`the page is ${document.body.scrollHeight} high in ${innerHeight}`);
    for (const element of document.querySelectorAll<HTMLElement>("button, input, textarea, select")) {
      if (!element.checkVisibility()) continue;
      const box = element.getBoundingClientRect();
      const name = element.textContent || element.getAttribute("aria-label") || element.id;
      if (box.left < 0 || box.right > innerWidth + 0.5) wrong.push(`${name} is outside`);
      if (element instanceof HTMLButtonElement && (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1)) wrong.push(`${name} is cut`);
    }
    const feed = document.getElementById("feed");
    if (feed && innerHeight > 480 && feed.clientHeight < 60) wrong.push(`the conversation is ${feed.clientHeight} high`);
    return wrong;
  });
}

async function wear(editor: Editor, chat: Frame, theme: keyof typeof THEMES): Promise<void> {
  editor.set({ "workbench.colorTheme": THEMES[theme] });
  const kind = { dark: "vscode-dark", light: "vscode-light", "high-contrast": "vscode-high-contrast", "high-contrast-light": "vscode-high-contrast-light" }[theme];
  await until(() => chat.evaluate((name) => document.body.classList.contains(name), kind), `the theme is ${theme}`);
  // The workbench is drawn anew within a few frames.
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
