// The scenario that every editor plays, by the chat.
import assert from "node:assert/strict";
import type { Frame } from "playwright-core";
import { DEADLINE, until, type Editor } from "./editor.ts";
import type { Hands } from "./hands.ts";

/** A step at which a picture may be taken, or something may go wrong. */
export type Step = "question" | "approval" | "diff" | "running" | "cancelled" | "completed";

/** What the page keeps for this test: how long the first text was, each time that it was drawn. */
interface Watched {
  lengths: Set<number>;
}

/** The rows of the invocation tree, as a screen reader is told them. */
export async function tree(editor: Editor): Promise<string[]> {
  return editor.page.locator(".pane", { hasText: "Invocation Tree" }).last().locator(".monaco-list-row").evaluateAll((rows) =>
    rows.map((row) => row.getAttribute("aria-label") ?? ""),
  );
}

/** Opens a file in its editor, which shows all of this. */
export async function shows(editor: Editor, name: string, ...expected: readonly RegExp[]): Promise<void> {
  await editor.open(name);
  let text = "";
  await until(async () => {
    text = await drawn(editor);
    return expected.every((one) => one.test(text));
  }, `${name} shows ${expected.join(" and ")}`).catch((error: unknown) => {
    throw new Error(`${String(error)}; it shows:\n${text}`);
  });
}

/** What the editor in front shows. */
export async function drawn(editor: Editor): Promise<string> {
  // Models of the workbench can't be reached from outside; what is drawn can, and the file is short.
  const lines = await editor.page.locator(".editor-instance .monaco-editor .view-line").evaluateAll((all) =>
    all
      .map((line) => ({ top: Number.parseInt((line as HTMLElement).style.top, 10), text: line.textContent ?? "" }))
      .toSorted((a, b) => a.top - b.top)
      .map(({ text }) => text.replaceAll("\u00a0", " ")),
  );
  return lines.join("\n");
}

export async function waitForCard(chat: Frame, title: string): Promise<void> {
  await chat.locator("#waiting .card", { hasText: title }).waitFor({ timeout: DEADLINE });
}

/** Steps 1 and 2: an unsaved line, a selection, a prompt. */
export async function begin(editor: Editor, hands: Hands): Promise<Frame> {
  await editor.open("greeting.sh");
  await editor.page.keyboard.press("Control+End");
  await editor.page.keyboard.type("# not saved yet\n");
  await hands.select(editor, 4, 5);
  await hands.startFromSelection(editor);
  const chat = await editor.chat();
  await chat.locator("#places", { hasText: "greeting.sh:4–5" }).waitFor({ timeout: DEADLINE });
  await until(() => chat.locator("#prompt").evaluate((element) => element === document.activeElement), "the composer has the focus");
  await editor.page.keyboard.type("Greet politely");
  await until(async () => (await chat.locator("#mode").inputValue()) === "new-task", "the mode is Task");
  await chat.evaluate(() => {
    const lengths = new Set<number>();
    (window as unknown as Watched).lengths = lengths;
    new MutationObserver(() => {
      const text = [...document.querySelectorAll(".said.text")].find((one) => one.textContent?.includes("The selected"));
      if (text) lengths.add(text.textContent?.length ?? 0);
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await hands.send(editor, chat);
  return chat;
}

/** Plays all of it. */
export async function play(editor: Editor, hands: Hands, at: (step: Step, chat: Frame) => Promise<void> = async () => {}): Promise<void> {
  const chat = await begin(editor, hands);

  // 2: text that grows.
  const said = chat.locator(".said.text", { hasText: "The selected lines" });
  await said.waitFor({ timeout: DEADLINE });
  await chat.locator("#waiting .question").waitFor({ timeout: DEADLINE });
  const lengths = await chat.evaluate(() => [...(window as unknown as Watched).lengths]);
  assert.ok(lengths.length >= 3, `the text grows piece by piece: ${lengths.join(", ")}`);

  // 3: a suggestion.
  await waitForCard(chat, "How polite should the greeting be?");
  assert.equal(await chat.locator("#waiting .suggestion").count(), 2);
  await at("question", chat);
  await hands.press(editor, chat, '#waiting .suggestion:has-text("Formal: Good day")');

  // 4: a new file, allowed in the diff.
  await waitForCard(chat, "docs/greeting.md");
  await at("approval", chat);
  assert.match((await chat.locator("#waiting .diff").textContent()) ?? "", /\+`sh greeting\.sh NAME` prints `Good day, NAME\.`/);
  await hands.press(editor, chat, "#waiting [data-show-diff]");
  await editor.page.locator(".tab.active", { hasText: "docs/greeting.md" }).waitFor({ timeout: DEADLINE });
  await editor.page.locator(".view-line", { hasText: "# The greeting" }).first().waitFor({ timeout: DEADLINE });
  await at("diff", chat);
  await hands.allowInDiff(editor);
  await until(() => editor.read("docs/greeting.md").includes("Good day, NAME."), "docs/greeting.md is on disk");
  await editor.page.locator(".tab", { hasText: "Create docs/greeting.md" }).waitFor({ state: "detached", timeout: DEADLINE });

  // 5: an edit of a file that is open and not saved.
  await waitForCard(chat, "Edit greeting.sh");
  const diff = (await chat.locator("#waiting .diff").textContent()) ?? "";
  assert.match(diff, /-echo "hey \$name"/);
  assert.match(diff, /\+echo "Good day, \$name\."/);
  await hands.press(editor, chat, '#waiting .approval [data-option="allow_once"]');

  // 6: a command, for which the file is saved.
  await waitForCard(chat, "Run sh greeting.sh");
  await shows(editor, "greeting.sh", /echo "Good day, \$name\."/, /# not saved yet/);
  await hands.press(editor, chat, '#waiting .approval [data-option="allow_once"]');
  await chat.locator(".tool .output", { hasText: "Good day, world." }).waitFor({ state: "attached", timeout: DEADLINE });
  assert.match(editor.read("greeting.sh"), /Good day[^]*# not saved yet/);

  // 7: the tree.
  const branches = [/^new-task: Greet politely, waits for a branch/, /^orchestrator: Greet formally, waits for a branch/, /^architect: Describe the greeting, completed/, /^code: Change the greeting, running/];
  const stands = (rows: readonly string[]): boolean => rows.length === branches.length && branches.every((branch, index) => branch.test(rows[index] ?? ""));
  await until(async () => stands(await tree(editor)), "the tree has four branches, of which one works and one is done").catch(async (error: unknown) => {
    throw new Error(`${String(error)}; it has:\n${(await tree(editor)).join("\n")}`);
  });

  // 8: cancelled while it writes.
  await chat.locator(".said.text", { hasText: "It prints the formal greeting" }).waitFor({ timeout: DEADLINE });
  await at("running", chat);
  await hands.press(editor, chat, "#cancel");
  await until(async () => (await tree(editor)).filter((row) => row.includes("cancelled")).length === 3, "three branches are cancelled");
  assert.match((await tree(editor)).join("\n"), /architect: Describe the greeting, completed/);
  await at("cancelled", chat);

  // 9: resumed, and done.
  await hands.press(editor, chat, "#resume");
  await chat.locator(".said.completion_result", { hasText: "greeting.sh greets formally, and docs/greeting.md describes it." }).waitFor({ timeout: DEADLINE });
  await until(async () => (await chat.locator("#standing").textContent())?.includes("completed") === true, "the request is completed");
  await at("completed", chat);
}
