// The list of what a task has changed: its rows, the texts that are compared, and undoing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lists, notifications } from "./editor.ts";
import type { ChangedFile, RecordedChange } from "../../src/protocol.ts";

const { rowsOf, showChanges, without } = await import("../../src/changes.ts");

const change = (changeId: string, line: number | undefined, oldText: string, newText: string, more: Partial<RecordedChange> = {}): RecordedChange => ({
  changeId,
  taskId: "t",
  toolCallId: "c",
  tool: "apply_diff",
  at: 1,
  kind: "edit",
  oldText,
  newText,
  ...(line !== undefined && { line }),
  ...more,
});
const file = (path: string, ...changes: RecordedChange[]): ChangedFile => ({ uri: `file:///w/${path}`, path, changes });

const edited = file(
  "a.txt",
  change("c9.2", 4, "four\n", "IV\n", { byUser: true }),
  change("c9.1", 2, "", "new\n"),
  change("c8.1", undefined, "x\n", "gone again\n"),
);
const deleted = file("b.txt", change("c10.1", 1, "was\n", "", { kind: "delete", tool: "execute_command" }));
const undone = file("c.txt", change("c11.1", undefined, "", "x\n", { kind: "create" }));

test("a text is compared with what it would be without the changes of the task", () => {
  assert.equal(without("one\nnew\nthree\nIV\nfive", edited), "one\nthree\nfour\nfive");
  assert.equal(without("", deleted), "was\n");
  assert.equal(without("x\n", file("d.txt", change("c12.1", 1, "", "x\n", { kind: "create" }))), "");
  assert.equal(without("one\r\ntwo\r\n", file("e.txt", change("c13.1", 2, "2\r\n", "two\r\n"))), "one\r\n2\r\n");
});

test("the list has files with what is left of their changes, in their order", () => {
  const rows = rowsOf([edited, deleted, undone]).map(({ label, description }) => [label.trim(), description]);
  assert.deepEqual(rows, [
    ["$(diff-multiple) Show all changes", undefined],
    ["$(file) a.txt", "2 changes"],
    ["2: new", "changed (apply_diff)"],
    ["4: IV", "changed with your lines (apply_diff)"],
    ["$(file) b.txt", "deleted"],
  ]);
  assert.deepEqual(rowsOf([undone]), []);
  const sign = file("$(bug).txt", change("c1.1", 1, "", "$(x)\n"));
  assert.ok(rowsOf([sign]).slice(1).every(({ label }) => !/\$\((bug|x)/.test(label)), "names of files are no icons");
});

test("a change is undone in the list, which then has what is left", async () => {
  const asked: unknown[] = [];
  const answers = [[edited, deleted], [edited], []];
  const request = async (method: string, params: unknown): Promise<unknown> => {
    asked.push([method, params]);
    if (method === "roo/changes/list") return { files: answers.shift() ?? [] };
    return { undone: ["c"], conflicts: asked.length > 3 ? [{ changeId: "d", reason: "its lines were changed since" }] : [] };
  };
  notifications.length = 0;
  const over = showChanges({ request, document: () => assert.fail() } as never, { compare: async () => assert.fail() }, "t");
  const list = await lists.next();
  const row = (label: string): never => list.items.find((one) => one.label.includes(label)) as never;
  await list.press(row("b.txt"));
  assert.equal(list.items.length, 4);
  await list.press(row("4: IV"));
  // Nothing is left.
  await over;
  assert.deepEqual(asked.filter((one) => (one as string[])[0] === "roo/changes/undo"), [
    ["roo/changes/undo", { taskId: "t", path: "b.txt" }],
    ["roo/changes/undo", { taskId: "t", changeIds: ["c9.2"] }],
  ]);
  assert.deepEqual(notifications, ["Roo: 1 change undone.", "Roo: 1 change undone, 1 not: its lines were changed since"]);
});
