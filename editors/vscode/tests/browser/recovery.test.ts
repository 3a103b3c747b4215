// Whatever is killed at whatever moment: the same request is there again, and goes on.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import type { Frame } from "playwright-core";
import { DEADLINE, Editor, until } from "./editor.ts";
import { mouse } from "./hands.ts";
import { begin, tree, waitForCard } from "./scenario.ts";

/** What the chat and the tree show of the work, without what tells of the interruption itself. */
async function shown(editor: Editor, chat: Frame): Promise<string> {
  const feed = await chat.locator("#feed .item").evaluateAll((items) =>
    items.map((item) => item.textContent ?? "").filter((text) => !/Interrupted|Resumed/.test(text)),
  );
  // Buttons for single changes come once the server has listed them; what is asked about is there at once.
  const cards = await chat.locator("#waiting .card").evaluateAll((all) =>
    all.map((card) => [...card.querySelectorAll("h2, .markdown, .suggestion, .added, .removed")].map((part) => part.textContent?.trim() ?? "")),
  );
  const rows = (await tree(editor)).map((row) => row.replace(/interrupted|waiting for you|waits for a branch|running/, "at work"));
  return JSON.stringify({ feed, cards, rows }, null, 1);
}

/** Fails unless the tree shows the branches that the log has, and says of the same ones that they are over. */
async function agrees(editor: Editor): Promise<void> {
  // No title of the scenario has a comma.
  const plain = (row: string): string => {
    const [name = "", state = ""] = row.split(", ");
    return ["completed", "failed", "cancelled"].includes(state) ? `${name}, ${state}` : name;
  };
  const told = editor.logged().map(plain);
  await until(async () => (await tree(editor)).map(plain).join("\n") === told.join("\n"), "the tree shows what the log has").catch(async () => {
    assert.deepEqual((await tree(editor)).map(plain), told);
  });
}

/** Resumes what was interrupted. */
async function resume(chat: Frame): Promise<void> {
  const button = chat.locator("#resume");
  await until(async () => (await button.isVisible()) || (await chat.locator("#waiting .card").count()) > 0, "it can be gone on with");
  if (await button.isVisible()) await button.click();
}

const accidents: Record<string, (editor: Editor) => Promise<void>> = {
  "the server is killed": async (editor) => {
    const before = editor.pids();
    assert.equal(editor.killServer(), 1);
    // What is done before the editor has noticed is done to nobody.
    await until(() => editor.pids().some((pid) => !before.includes(pid)), "another server is started");
  },
  "the page is killed": (editor) => editor.crash(),
  "the extension host is killed": async (editor) => {
    assert.ok(editor.killExtensionHost() >= 1);
    await editor.load();
  },
};

/** Some order; each run tries another one. */
function shuffled<T>(values: readonly T[]): T[] {
  return values.map((value) => ({ value, at: randomInt(1_000_000) })).toSorted((a, b) => a.at - b.at).map(({ value }) => value);
}

test("what was killed is there again, and goes on", async (context) => {
  const editor = await Editor.start();
  const order = shuffled(Object.keys(accidents));
  const befall = async (): Promise<Frame> => {
    const name = order.shift() ?? "";
    context.diagnostic(name);
    await accidents[name]?.(editor);
    await editor.command("Roo: Focus on Chat View");
    const chat = await editor.chat();
    await resume(chat);
    return chat;
  };
  try {
    let chat = await begin(editor, mouse);
    // Somewhere in the first text.
    const moment = randomInt(400);
    context.diagnostic(`after ${moment} ms`);
    await new Promise((resolve) => setTimeout(resolve, moment));
    chat = await befall();
    await waitForCard(chat, "How polite should the greeting be?");
    assert.equal(await chat.locator("#waiting .card").count(), 1);
    await agrees(editor);

    // While a question waits, and while a permission does.
    for (const title of ["How polite should the greeting be?", "docs/greeting.md"]) {
      await waitForCard(chat, title);
      const card = (): Promise<string | null> =>
        chat.locator("#waiting .card").evaluate((element) => element.getAttribute("data-approval") ?? element.getAttribute("data-question"));
      const id = await card();
      // The newest tree has the newest costs, too.
      await until(async () => (await tree(editor)).some((row) => row.includes("waiting for you")), "the tree says what waits");
      const before = await shown(editor, chat);
      chat = await befall();
      await waitForCard(chat, title);
      await until(async () => (await shown(editor, chat)) === before, "the same is shown").catch(async () => {
        assert.equal(await shown(editor, chat), before);
      });
      assert.equal(await card(), id, "what waits keeps its id");
      await agrees(editor);
      await chat.locator('#waiting .suggestion:has-text("Formal: Good day"), #waiting [data-option="allow_once"]').click();
    }
    await until(() => editor.read("docs/greeting.md").includes("Good day, NAME."), "docs/greeting.md is on disk");
    await chat.locator(".said.text", { hasText: "Described. Now the change." }).waitFor({ timeout: DEADLINE });
  } catch (error) {
    throw await editor.failed("recovery", error);
  } finally {
    await editor.stop();
  }
});
