// The chat's page alone: what it shows in every theme and width, and what keys and clicks do, without an editor.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { withContext } from "../../src/hunks.ts";
import type { Hunk, PromptItem } from "../../src/protocol.ts";
import { ChatPage, CONTEXT, request } from "./chat-page.ts";
import { THEMES, until } from "./editor.ts";
import { cut, violations } from "./looks.ts";
import { command, edit, question, working, type Told } from "./sample.ts";

const chat = await ChatPage.open();
const { page } = chat;
after(() => chat.close());
const pictures = fileURLToPath(new URL("../../../../target/editors/vscode/pictures/", import.meta.url));
mkdirSync(pictures, { recursive: true });

const SIZES = [[170, 600], [280, 500], [280, 900], [400, 700], [700, 760]] as const;
const SCENES = {
  welcome: { shown: undefined, context: { profiles: [] } },
  working: { shown: request(...working), context: {} },
  approvals: { shown: request(...working, ...edit, ...command), context: {} },
  failed: {
    shown: request(...working.slice(0, working.findIndex((one) => one.type === "usage")), { type: "message", message: { id: "e", say: "error", text: "The file is not there." } }, { type: "task.state", state: "failed", reason: "no more" }),
    context: { problem: "The server has exited.", untrusted: [".roomodes"], restartPending: true },
  },
  question: { shown: request(...working, ...question), context: {} },
};

for (const theme of Object.keys(THEMES) as (keyof typeof THEMES)[]) {
  test(`nothing is cut or hard to read at any width: ${theme}`, async () => {
    for (const [width, height] of SIZES) {
      for (const [name, { shown, context }] of Object.entries(SCENES)) {
        await chat.show(theme, { width, height }, shown, context);
        await page.screenshot({ path: join(pictures, `page-${theme}-${name}-${width}x${height}.png`) });
        const where = `${name}, ${theme}, ${width} × ${height}`;
        assert.deepEqual(await cut(page), [], where);
        assert.deepEqual(await violations(page), [], where);
      }
    }
  });
}

test("an approval shows changed lines and its answers at once, whatever the size", async () => {
  for (const [width, height] of [[280, 340], [280, 420], ...SIZES.slice(1)] as const) {
    await chat.show("dark", { width, height }, request(...working, ...edit));
    const seen = await page.evaluate(() => {
      const inside = (element: Element, box: DOMRect): boolean => {
        const { top, bottom } = element.getBoundingClientRect();
        return top >= box.top - 1 && bottom <= box.bottom + 1;
      };
      const view = new DOMRect(0, 0, innerWidth, innerHeight);
      const subject = document.querySelector(".card .subject")?.getBoundingClientRect() ?? new DOMRect();
      return {
        answers: [...document.querySelectorAll(".card footer .buttons button")].filter((one) => inside(one, view)).length,
        changed: [...document.querySelectorAll(".card .added, .card .removed")].filter((one) => inside(one, subject) && inside(one, view)).length,
      };
    });
    assert.ok(seen.answers >= 2, `${width} × ${height}: ${seen.answers} answers in view`);
    assert.ok(seen.changed >= 1, `${width} × ${height}: ${seen.changed} changed lines in view`);
  }
});

test("approvals come one after another, and the next one gets the focus but no answer", async () => {
  const events = [...working, ...edit, ...command];
  await chat.show("dark", { width: 400, height: 700 }, request(...events));
  assert.deepEqual((await chat.told()).filter((one) => one.type === "inFront"), [{ type: "inFront", approvalId: "root.a1" }]);
  assert.equal(await page.locator(".stack .place").textContent(), "1 of 2");
  assert.equal(await page.locator(".card").count(), 1);

  await chat.tell({ type: "move", by: 1 });
  assert.equal(await page.locator(".stack .place").textContent(), "2 of 2");
  assert.match((await page.locator(".card h2").textContent()) ?? "", /^Run sed/);
  await page.locator(".stack button").first().click();
  assert.match((await page.locator(".card h2").textContent()) ?? "", /^Edit shop\/cart\.py/);

  // What was typed into a card is there when it comes back.
  await page.locator(".more summary").click();
  await page.getByLabel("Feedback for the agent").fill("not so");
  await chat.tell({ type: "move", by: 1 });
  await chat.tell({ type: "move", by: 1 });
  assert.equal(await page.getByLabel("Feedback for the agent").inputValue(), "not so");

  await page.locator('[data-option="reject_once"]').focus();
  await page.keyboard.press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond"), [{ type: "respond", approvalId: "root.a1", digest: "d", optionId: "no", text: "not so" }]);
  await chat.tell({ type: "state", request: request(...events, { type: "approval.resolved", approvalId: "root.a1", by: "user", optionId: "no" }), only: undefined });
  assert.ok(!(await page.locator(".stack").isVisible()), "one alone is not counted");
  assert.match((await page.locator(".card h2").textContent()) ?? "", /^Run sed/);
  assert.ok(await page.locator(".card").evaluate((card) => card === document.activeElement), "the card has the focus, and no answer");
  await page.keyboard.press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond"), []);
});

test("a key answers the card that is in front, with what was typed into it", async () => {
  const events = [...working, ...edit, ...command];
  await chat.show("dark", { width: 400, height: 700 }, request(...events));
  await page.locator(".more summary").click();
  await page.getByLabel("Feedback for the agent").fill("not so");
  await chat.told();
  await chat.tell({ type: "decide", approvalId: "root.2.a1", kind: "allow_once" });
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond"), [], "another one is not answered unseen");
  await chat.tell({ type: "decide", approvalId: "root.a1", kind: "reject_once" });
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond"), [{ type: "respond", approvalId: "root.a1", digest: "d", optionId: "no", text: "not so" }]);
});

test("single changes are refused with words or rewritten, and the answer to the whole says how many it allows", async () => {
  await chat.show("dark", { width: 280, height: 900 }, request(...working, ...edit));
  const hunk = (hunkId: string, start: number, oldText: string, newText: string): Hunk => ({
    hunkId, digest: `d-${hunkId}`, oldText, newText, oldRange: { start, end: start + 1 }, newRange: { start, end: start + 1 },
  });
  const file = withContext("shop/cart.py", "a\nb\nc\nd\ne\nf\ng\n", [hunk("h1", 1, "b\n", "B\n"), hunk("h2", 4, "e\n", "E\n"), hunk("h3", 6, "g\n", "G\n")]);
  await chat.tell({ type: "hunks", approvalId: "root.a1", files: [file], answers: [] });
  assert.deepEqual(await violations(page), []);
  const decisions = async (): Promise<unknown> => (await chat.told()).filter((one) => one.type === "hunks").at(-1);
  assert.equal(await page.locator("[data-hunk]").count(), 3);

  await page.locator('[data-hunk="h2"] .toggle', { hasText: "Refuse" }).press("Enter");
  await page.keyboard.type("Keep it");
  assert.deepEqual(await decisions(), { type: "hunks", approvalId: "root.a1", answers: [{ hunkId: "h2", digest: "d-h2", decision: "refuse", text: "Keep it" }] });
  assert.equal(await page.locator('[data-option="allow_once"]').textContent(), "Allow 2 of 3");

  await page.locator('[data-hunk="h3"] .toggle', { hasText: "Edit" }).press("Enter");
  await page.getByLabel("Your lines, Change 3 of 3").fill("mine\n");
  await page.screenshot({ path: join(pictures, "page-dark-hunks-280x900.png") });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(await cut(page), []);
  assert.deepEqual(await decisions(), {
    type: "hunks",
    approvalId: "root.a1",
    answers: [{ hunkId: "h2", digest: "d-h2", decision: "refuse", text: "Keep it" }, { hunkId: "h3", digest: "d-h3", decision: "edit", text: "mine\n" }],
  });

  // What is decided in the diff is shown here as well, and not told back.
  const before = [{ hunkId: "h2", digest: "d-h2", decision: "refuse", text: "Keep it" }, { hunkId: "h3", digest: "d-h3", decision: "edit", text: "mine\n" }] as const;
  await chat.tell({ type: "decided", approvalId: "root.a1", answers: [{ hunkId: "h1", digest: "d-h1", decision: "refuse", text: "Not here" }] });
  assert.equal(await page.getByLabel("Why not, Change 1 of 3").inputValue(), "Not here");
  assert.equal(await page.locator(".toggle[aria-pressed='true']").count(), 1);
  assert.deepEqual(await chat.told(), []);
  await chat.tell({ type: "decided", approvalId: "root.a1", answers: before });

  // Asked again about the same, the card keeps all of it; about something else, it starts over.
  await chat.tell({ type: "state", request: request(...working, ...edit), only: undefined });
  assert.equal(await page.getByLabel("Your lines, Change 3 of 3").inputValue(), "mine\n");
  assert.deepEqual(await chat.told(), []);

  // Taken back, it follows the answer to the whole again.
  await page.locator('[data-hunk="h2"] .toggle[aria-pressed="true"]').press("Enter");
  assert.equal(await page.locator('[data-option="allow_once"]').textContent(), "Allow");
  for (const id of ["h1", "h2", "h3"]) await page.locator(`[data-hunk="${id}"] .toggle`, { hasText: "Refuse" }).click();
  assert.equal(await page.locator('[data-option="allow_once"]').textContent(), "Refuse all 3");
  await chat.told();
  const other = edit.map((one) => (one.type === "approval.requested" ? { ...one, digest: "other" } : one));
  await chat.tell({ type: "state", request: request(...working, ...other), only: undefined });
  assert.equal(await page.locator("[data-hunk]").count(), 0);
  assert.deepEqual((await chat.told()).filter((one) => one.type !== "focused"), [{ type: "hunks", approvalId: "root.a1", answers: [] }, { type: "inFront", approvalId: "root.a1" }]);
});

test("an answer for good is asked about once more", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working, ...edit));
  await page.locator(".more summary").press("Enter");
  await page.locator('[data-option="allow_always"]').press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond"), []);
  assert.equal(await page.locator(".permanent .scope").textContent(), "Always allow edits of this workspace's files: Allows all edits of files in this workspace, in this task and in later ones.");
  // A second press of the same key goes back.
  await page.keyboard.press("Enter");
  await page.locator('[data-option="allow_always"]').press("Enter");
  await page.locator('[data-confirm="allow_always"]').press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "respond").map((one) => "optionId" in one && one.optionId), ["aa"]);
});

test("what a standing rule has decided says so, and is no answer that was withdrawn", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working, ...edit, { type: "approval.resolved", approvalId: "root.a1", by: "rule r2", ruleId: "r2" }));
  assert.equal(await page.locator(".card").count(), 0);
  assert.equal(await page.locator("#feed .answer", { hasText: "Edit shop/cart.py" }).textContent(), "Edit shop/cart.py: decided by the standing rule r2");
});

test("a question is answered in the composer, and stands on the page once", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working, ...question));
  assert.equal(await page.getByText("Should the total be").count(), 1);
  await page.locator("#prompt").fill("To three places");
  await page.keyboard.press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "answer"), [{ type: "answer", questionId: "q1", text: "To three places", images: [] }]);
  await chat.tell({ type: "failed", what: "answer", message: "no" });
  assert.equal(await page.locator("#prompt").inputValue(), "To three places", "what did not arrive is there again");
  await chat.tell({ type: "state", request: request(...working, ...question, { type: "question.answered", questionId: "q1", by: "user", text: "To three places" }), only: undefined });
  assert.equal(await page.getByText("Should the total be").count(), 1, "the conversation keeps it");
  assert.equal(await page.locator("#send").textContent(), "Send");
});

test("a secret is hidden while it is typed, answered in its card, and kept nowhere", async () => {
  const asked: Told = { type: "question.asked", questionId: "q1", kind: "mcp_elicitation", text: "Token for the desk?", suggestions: [], secret: true };
  await chat.show("dark", { width: 280, height: 500 }, request(...working, asked));
  assert.deepEqual([await cut(page), await violations(page)], [[], []]);
  const field = page.locator(".card input");
  assert.equal(await field.getAttribute("type"), "password");
  await field.fill("hunter2");
  await page.keyboard.press("Enter");
  await page.locator(".card .secret button").click();
  const answer = { type: "answer", questionId: "q1", text: "hunter2" };
  assert.deepEqual((await chat.told()).filter((one) => one.type === "answer"), [answer, answer]);
  assert.equal(await page.locator("#send").textContent(), "Send", "what is written below is a message");
  await page.locator("#prompt").fill("hunter3");
  assert.equal(await chat.kept(), undefined);
  await chat.tell({ type: "state", request: request(...working, asked, { type: "question.answered", questionId: "q1", by: "user", text: "(hidden)" }), only: undefined });
  assert.equal(await page.locator(".card").count(), 0);
  await page.locator("#prompt").fill("Go on");
  assert.deepEqual(await chat.kept(), { draft: "Go on" });
});

test("code is copied and inserted, and files are opened", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working));
  const code = "# price times count\ndef total(self) -> Decimal:\n    return sum((price * count for _, price, count in self.items), Decimal(0))";
  await page.locator('[data-code="copy"]').press("Enter");
  await page.locator('[data-code="insert"]').click();
  await page.locator(".markdown a", { hasText: "shop/cart.py:4" }).click();
  await page.locator(".said.text .copy").press("Enter");
  const told = (await chat.told()).filter((one) => ["copy", "insert", "link"].includes(one.type));
  assert.deepEqual(told.slice(0, 3), [{ type: "copy", text: code }, { type: "insert", text: code, language: "python" }, { type: "link", href: "shop/cart.py:4" }]);
  assert.ok(told[3]?.type === "copy" && told[3].text.startsWith("The total in `shop/cart.py:4` ignores"));
});

test("the meter opens the parts of context and cost, and Escape closes them", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working));
  const usage = page.locator("#usage");
  assert.equal(await usage.getAttribute("aria-label"), "Used: 56k tokens · $0.0522; context 47k of 200k tokens (23 %)");
  await usage.press("Enter");
  const parts = (await page.locator("#usage-parts").textContent()) ?? "";
  for (const part of ["46,800 tokens of 200k (23 %)", "New input1,800 tokens", "Read from the cache42,000 tokens", "Answer420 tokens", "200k context · $3 in, $15 out per million tokens", "Cost$0.0412", "🏗️ Describe the cart9200 tokens · $0.01"]) {
    assert.ok(parts.includes(part), `${part} is in ${parts}`);
  }
  await page.locator("#usage-parts").press("Escape");
  assert.ok(!(await page.locator("#usage-parts").isVisible()));
  assert.ok(await usage.evaluate((element) => element === document.activeElement));
});

test("the meter shows the parts that the server tells, and a shortened context says so and can be undone", async () => {
  const context = { window: 32_000, limit: 28_000, used: 12_400, system: 4000, tools: 3000, pinned: 400, files: 2000, conversation: 3000 };
  const shortened: Told = { type: "context.shortened", method: "summary", tokensBefore: 31_200, tokensAfter: 12_400, summary: "The **total** was fixed." };
  await chat.show("dark", { width: 400, height: 700 }, request(...working, { type: "usage", tokensIn: 1900, tokensOut: 430, cacheReads: 43_000, cacheWrites: 3000, costUsd: 0.05, context }, shortened));
  assert.match((await page.locator("#usage").getAttribute("aria-label")) ?? "", /context 12k of 32k tokens \(39 %\)/);
  await page.locator("#usage").press("Enter");
  const parts = (await page.locator("#usage-parts").textContent()) ?? "";
  for (const part of ["12,400 tokens of 32k (39 %)", "System prompt4,000 tokens", "Tools3,000 tokens", "Your messages400 tokens", "Files2,000 tokens", "Conversation3,000 tokens"]) assert.ok(parts.includes(part), `${part} is in ${parts}`);
  await page.locator("#usage-parts").press("Escape");
  const note = page.locator("#feed details.note", { hasText: "Context shortened: 31,200 → 12,400 tokens" });
  await note.locator("summary").press("Enter");
  assert.equal(await note.locator("strong").textContent(), "total");
  assert.deepEqual(await violations(page), []);
  await note.locator("[data-undo]").press("Enter");
  const [undo] = (await chat.told()).filter((one) => one.type === "undoShortening");
  assert.ok(undo?.type === "undoShortening" && undo.taskId === "root");
  await chat.tell({ type: "event", params: { rootId: "root", taskId: "root", seq: undo.seq + 1, at: 0, event: { type: "context.restored", seq: undo.seq, tokensBefore: 12_400, tokensAfter: 31_200 } } });
  assert.equal(await page.locator("[data-undo]").count(), 0);
  assert.match((await page.locator("#feed .note.info").last().textContent()) ?? "", /Shortening undone: 12,400 → 31,200 tokens/);
});

test("a failure that has cured itself is a line to open; one that has not is in red", async () => {
  const failing = working.slice(0, working.findIndex((one) => one.type === "usage"));
  await chat.show("dark", { width: 400, height: 700 }, request(...failing));
  assert.match((await page.locator("#feed .note.bad").textContent()) ?? "", /rate limit/);
  await chat.tell({ type: "state", request: request(...working), only: undefined });
  assert.equal(await page.locator("#feed .note.bad").count(), 0);
  assert.equal(await page.locator(".note.healed summary").textContent(), "A model request failed and was made again");
  assert.ok(!(await page.locator(".note.healed p").isVisible()));
});

test("the to-do list is in view with what is done now, and opens", async () => {
  await chat.show("dark", { width: 280, height: 700 }, request(...working));
  assert.equal(await page.locator("#todo summary").textContent(), "To do: 1 of 3 · Fix the total");
  await page.locator("#todo summary").press("Enter");
  assert.deepEqual(await page.locator("#todo li").allTextContents(), ["✓ done: Find the bug", "● now: Fix the total", "○ to do: Describe it in the README"]);
});

test("what the user said is where one goes back to, and a restore is told", async () => {
  const before: Told = { type: "restore.started", seq: 2, what: "both", files: [{ path: "a.txt", change: "created" }], by: "vscode" };
  const seq = working.length + 1;
  await chat.show("dark", { width: 400, height: 700 }, request(...working, before, { type: "restore.finished", seq: working.length, done: true, conversationBefore: 2 }));
  assert.equal(await page.locator(".said .restore").count(), 1, "at the request alone: nobody else said anything");
  await page.locator(".said .restore").press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "restore"), [{ type: "restore", taskId: "root", seq: 2 }]);
  assert.match((await page.locator("#feed .note").last().textContent()) ?? "", /Restored 1 file and the conversation \(vscode\)/);
  await chat.tell({ type: "event", params: { rootId: "root", taskId: "root", seq: seq + 1, at: 0, event: { type: "restore.finished", seq: 99, done: false, reason: "a.txt was changed meanwhile" } } });
  assert.match((await page.locator("#feed .note.bad").last().textContent()) ?? "", /Nothing was restored: a\.txt was changed meanwhile/);
  assert.deepEqual(await violations(page), []);
  await chat.show("dark", { width: 400, height: 700 }, request(...working), { canRestore: false });
  assert.ok(!(await page.locator(".said .restore").isVisible()));
});

test("a message of the user's is rewritten in its place", async () => {
  const more: Told = { type: "message", message: { id: "f1", say: "user_feedback", text: "Round it\nto two places" } };
  await chat.show("dark", { width: 280, height: 700 }, request(...working, more));
  assert.equal(await page.locator(".said .edit").count(), 2, "at the messages of the user's alone");
  const said = page.locator(".said.user_feedback").last();
  const field = said.locator("textarea");
  await said.locator(".edit").press("Enter");
  assert.equal(await field.inputValue(), "Round it\nto two places");
  assert.ok(!(await said.locator(".markdown").isVisible()));
  assert.deepEqual([await cut(page), await violations(page)], [[], []]);
  await said.locator("[data-rewrite]").click();
  assert.ok(await field.isVisible(), "nothing was changed");
  await field.fill("Round it\nto three places");
  await page.keyboard.press("Escape");
  assert.ok(!(await field.isVisible()));
  await said.locator(".edit").press("Enter");
  await said.locator("[data-rewrite]").click();
  assert.ok(await said.locator(".markdown").isVisible());
  const edit = { type: "edit", taskId: "root", messageId: "f1", text: "Round it\nto three places", images: [] };
  assert.deepEqual((await chat.told()).filter((one) => one.type === "edit"), [edit]);
  await chat.show("dark", { width: 280, height: 700 }, request(...working, more), { canEdit: false });
  assert.ok(!(await said.locator(".edit").isVisible()));
});

test("completions replace what they are for, a folder is gone into, and a late answer reopens nothing", async () => {
  await chat.show("dark", { width: 400, height: 700 }, undefined);
  const prompt = page.locator("#prompt");
  const choices = (): Promise<string[]> => page.locator("#choices li").allTextContents();
  const answer = async (typed: string, replaced: string, ...items: readonly PromptItem[]): Promise<void> => {
    assert.deepEqual((await chat.told()).filter((one) => one.type === "complete").at(-1), { type: "complete", prompt: typed });
    await chat.tell({ type: "completions", prompt: typed, completions: { replaced, items: [...items], isIncomplete: true } });
  };
  await prompt.pressSequentially("Look at @p");
  assert.deepEqual(await choices(), ["@problems"], "what is known is there at once");
  await answer("Look at @p", "@p", { text: "@pictures/", kind: "folder" }, { text: "@logo.png", kind: "image", detail: "4 KB" });
  assert.deepEqual(await choices(), ["@pictures/ folder", "@logo.png image · 4 KB"]);
  await page.keyboard.press("Enter");
  assert.equal(await prompt.inputValue(), "Look at @pictures/");
  await answer("Look at @pictures/", "@pictures/", { text: "@pictures/a b.png", kind: "image" });
  await page.keyboard.press("Tab");
  assert.equal(await prompt.inputValue(), "Look at @pictures/a b.png ");
  await prompt.fill("");
  await prompt.pressSequentially("/in");
  await answer("/in", "/in", { text: "/code", kind: "mode", detail: "Code" }, { text: "/init", kind: "command", detail: "Writes AGENTS.md" });
  assert.deepEqual(await choices(), ["/init Writes AGENTS.md"]);
  await prompt.fill("");
  await prompt.pressSequentially("and @x");
  await page.keyboard.press("Escape");
  const late = (await chat.told()).filter((one) => one.type === "complete").at(-1);
  await chat.tell({ type: "completions", prompt: late?.type === "complete" ? late.prompt : "", completions: { replaced: "@x", items: [{ text: "@x.txt", kind: "file" }], isIncomplete: false } });
  assert.ok(!(await page.locator("#choices").isVisible()));
});

test("what runs without a question is in view, and is changed there", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working));
  assert.equal(await page.locator("#auto summary").textContent(), "Auto-approve: reads, subtasks");
  await page.locator("#auto summary").press("Enter");
  await page.getByLabel("Edit files").press("Space");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "autoApprove"), [{ type: "autoApprove", key: "write", on: true }]);
  // What else is learned meanwhile doesn't take it back; a setting that can't be written does.
  await chat.tell({ type: "context", context: CONTEXT });
  assert.ok(await page.getByLabel("Edit files").isChecked());
  await chat.tell({ type: "failed", what: "autoApprove", message: "no" });
  assert.ok(!(await page.getByLabel("Edit files").isChecked()));
});

test("without a model the page says so in place, and leads to the setup", async () => {
  await chat.show("dark", { width: 280, height: 560 }, undefined, { profiles: [] });
  await page.locator("#no-model button").press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "setUp"), [{ type: "setUp" }]);
  await chat.show("dark", { width: 280, height: 560 }, undefined);
  assert.equal(await page.locator("#no-model").count(), 0);
  assert.equal(await page.locator("#model").textContent(), "claude-sonnet-4-5");
  assert.match((await page.locator("#model").getAttribute("title")) ?? "", /200k context · \$3 in, \$15 out/);
});

test("the history is searched and filtered, its numbers are those of the header, and arrows lead through it", async () => {
  await chat.show("dark", { width: 400, height: 700 }, request(...working));
  const item = (taskId: string, title: string, state: "completed" | "failed") => ({
    taskId, urid: `u-${taskId}`, title, mode: "code", state, createdAt: 0, updatedAt: 0, seq: 9,
    usage: { tokensIn: 1800, tokensOut: 420, cacheReads: 42_000, cacheWrites: 3000, costUsd: 0.0412 },
  });
  await chat.tell({ type: "history", items: [item("a", "Fix the cart", "completed"), item("b", "Describe the shop", "failed")], more: false, appended: false });
  assert.ok(await page.getByLabel("Search tasks").evaluate((element) => element === document.activeElement));
  assert.deepEqual(await violations(page), []);
  assert.match((await page.locator(".entry").first().textContent()) ?? "", /47k tokens · \$0\.0412/);
  await page.keyboard.type("shop");
  assert.deepEqual(await page.locator(".entry .title").allTextContents(), ["Describe the shop"]);
  await page.getByLabel("Show", { exact: true }).selectOption("completed");
  assert.equal(await page.locator(".entry").count(), 0);
  await page.getByLabel("Search tasks").fill("");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.deepEqual((await chat.told()).filter((one) => one.type === "open"), [{ type: "open", taskId: "a", title: "Fix the cart" }]);
  await until(() => page.locator("#prompt").evaluate((element) => element === document.activeElement), "the composer has the focus again");
});

test("who reads further up stays there, and comes back with a button", async () => {
  await chat.show("dark", { width: 280, height: 500 }, request(...working));
  const feed = page.locator("#feed");
  const end = (): Promise<number> => feed.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight);
  assert.ok((await end()) < 2, "the newest is in view");
  await feed.evaluate((one) => one.scrollTo(0, 0));
  await page.locator("#latest").waitFor();
  const more = { type: "message", message: { id: "x", say: "text", text: "More of it" } } as const;
  await chat.tell({ type: "event", params: { rootId: "root", taskId: "root", seq: request(...working).seq + 1, at: 0, event: more } });
  assert.ok((await end()) > 40, "it stays where it was");
  await page.locator("#latest").press("Enter");
  assert.ok((await end()) < 2);
  assert.ok(!(await page.locator("#latest").isVisible()));
});
