// Going back to before a message: what that would do is shown, then done exactly so, and can be undone. Or a fork from there, or
// another message in the place of this one.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import type { Previews } from "./preview.ts";
import type { CheckpointRestoreParams, CheckpointRestoreResult, RestoreWhat, TaskEditParams, TaskId } from "./protocol.ts";

/** Who is asked, and where changes are shown. */
type Asked = Pick<Connection, "request">;
type Shown = Pick<Previews, "compare">;

interface Choice extends vscode.QuickPickItem {
  readonly what: RestoreWhat | "fork";
}

const CHOICES: readonly Choice[] = [
  { label: "Files and conversation", detail: "The files are as they were, and the agent no longer sees what came after.", what: "both" },
  { label: "Files", detail: "The conversation stays.", what: "files" },
  { label: "Conversation", detail: "The files stay as they are.", what: "conversation" },
];
const FORK: Choice = { label: "Neither: Fork", detail: "A new task has everything before this message. This one and the files stay as they are.", what: "fork" };
/** The first message of a request: there is nothing before it. */
const FIRST_MESSAGE = 2;

/**
 * Asks what is to be restored, shows what that would do, and does it. `seq` is the number of an event: all since then is undone. Gives
 * the fork that was wanted instead.
 */
export async function restore(connection: Asked, previews: Shown, taskId: TaskId, seq: number): Promise<TaskId | undefined> {
  const choices = seq > FIRST_MESSAGE ? [...CHOICES, FORK] : CHOICES;
  const what = (await vscode.window.showQuickPick(choices, { title: "Restore what there was before this message?" }))?.what;
  if (what === "fork") return (await connection.request("roo/task/fork", { taskId, seq: seq - 1 })).taskId;
  if (what === undefined) return undefined;
  const ask = (more: Partial<CheckpointRestoreParams>): Promise<CheckpointRestoreResult> => connection.request("roo/checkpoint/restore", { taskId, seq, what, ...more });
  const restored = await confirmed(ask, previews, { question: "Restore this state?", yes: "Restore", end: "It can be undone." });
  if (restored === undefined) return undefined;
  const undo = "Undo";
  const { restoredAs } = restored;
  const answer = await vscode.window.showInformationMessage(["Roo: restored.", ...keptWorktrees(restored)].join(" "), ...(restoredAs == null ? [] : [undo]));
  if (answer === undo && restoredAs != null) await ask({ seq: restoredAs });
  return undefined;
}

/** Asks what becomes of the files, shows what that would do, and puts another message in the place of one: the request goes on from it. */
export async function edit(connection: Asked, previews: Shown, message: Pick<TaskEditParams, "taskId" | "messageId" | "text" | "images">): Promise<void> {
  const choices = [
    { label: "The files stay as they are", files: false },
    { label: "The files go back too", detail: "They are as they were before this message.", files: true },
  ];
  const files = (await vscode.window.showQuickPick(choices, { title: "Go on from the changed message" }))?.files;
  if (files === undefined) return;
  const ask = (more: Partial<TaskEditParams>): Promise<CheckpointRestoreResult> => connection.request("roo/task/edit", { ...message, files, ...more });
  const edited = await confirmed(ask, previews, { question: "Go on from the changed message?", yes: "Go On", end: "" });
  const kept = edited === undefined ? [] : keptWorktrees(edited);
  if (kept.length > 0) void vscode.window.showInformationMessage(`Roo: ${kept.join(" ")}`);
}

/** Where the work of branches is that ended with a restore and was not merged. */
function keptWorktrees({ endedBranches = [] }: CheckpointRestoreResult): string[] {
  return endedBranches.flatMap(({ title, worktree }) => (worktree ? [`What the branch "${title}" has not merged is in ${worktree}.`] : []));
}

/** What is said when the user is asked. */
interface Words {
  readonly question: string;
  readonly yes: string;
  readonly end: string;
}

/** Shows what something would do, and does exactly that, or nothing, as the user says. */
async function confirmed(
  ask: (more: Pick<CheckpointRestoreParams, "preview" | "conflicts" | "digest">) => Promise<CheckpointRestoreResult>,
  previews: Shown,
  words: Words,
  conflicts: Pick<CheckpointRestoreParams, "conflicts"> = {},
): Promise<CheckpointRestoreResult | undefined> {
  const preview = await ask({ ...conflicts, preview: true });
  if (preview.files.length === 0 && preview.conflicts.length === 0 && !preview.conversation) {
    return void vscode.window.showInformationMessage("Roo: nothing has changed since then.");
  }
  const { question, yes, end } = words;
  const mark = `${yes}, Mark Conflicts`;
  const show = "Show Changes";
  const offered = [yes, ...(preview.conflicts.some((one) => !one.marked) ? [mark] : []), ...(preview.files.length > 0 ? [show] : [])];
  const chosen = await vscode.window.showWarningMessage(question, { modal: true, detail: inWords(preview, end) }, ...offered);
  if (chosen === show) {
    await previews.compare(`Restore ${count(preview.files.length, "file")}`, preview.files);
    const again = await vscode.window.showInformationMessage(`Roo: the changes of the restore are shown. Restore ${count(preview.files.length, "file")}?`, yes);
    if (again !== yes) return undefined;
  } else if (chosen === mark) {
    return confirmed(ask, previews, words, { conflicts: "mark" });
  } else if (chosen !== yes) {
    return undefined;
  }
  return ask({ ...conflicts, digest: preview.digest });
}

function inWords({ files, conflicts, leftOut, conversation, endedBranches = [] }: CheckpointRestoreResult, end: string): string {
  const list = (title: string, lines: readonly string[]): string => (lines.length > 0 ? `${title}\n${lines.map((line) => `• ${line}`).join("\n")}` : "");
  const change = (before: unknown, after: unknown): string => (after == null ? " (deleted)" : before == null ? " (created again)" : "");
  return [
    list("These files change:", files.map(({ path, before, after }) => `${path}${change(before, after)}`)),
    list("You have changed these in the same place since:", conflicts.map(({ path, reason, marked }) => `${path}: ${marked ? "both versions, between conflict markers" : reason}`)),
    list("These can't be restored:", leftOut.map(({ path, reason }) => `${path}: ${reason}`)),
    conversation ? `The agent no longer sees ${count(conversation.dropped, "message or result", "messages and results")}. The log keeps them.` : "",
    list("These branches end:", endedBranches.map(({ title, worktree }) => (worktree ? `${title}: what it has not merged stays in ${worktree}` : title))),
    end,
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** A number of things. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
