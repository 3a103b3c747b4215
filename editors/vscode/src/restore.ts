// Going back to before a message: what that would do is shown, then done exactly so, and can be undone. Or a fork from there.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import type { Previews } from "./preview.ts";
import type { CheckpointRestoreParams, CheckpointRestoreResult, RestoreWhat, TaskId } from "./protocol.ts";

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
  if (what) await confirmed(connection, previews, { taskId, seq, what });
  return undefined;
}

async function confirmed(connection: Asked, previews: Shown, wanted: CheckpointRestoreParams): Promise<void> {
  const ask = (params: CheckpointRestoreParams): Promise<CheckpointRestoreResult> => connection.request("roo/checkpoint/restore", params);
  const preview = await ask({ ...wanted, preview: true });
  if (preview.files.length === 0 && preview.conflicts.length === 0 && !preview.conversation) {
    return void vscode.window.showInformationMessage("Roo: nothing has changed since then.");
  }
  const yes = "Restore";
  const mark = "Restore, Mark Conflicts";
  const show = "Show Changes";
  const offered = [yes, ...(preview.conflicts.some((one) => !one.marked) ? [mark] : []), ...(preview.files.length > 0 ? [show] : [])];
  const chosen = await vscode.window.showWarningMessage("Restore this state?", { modal: true, detail: inWords(preview) }, ...offered);
  if (chosen === show) {
    await previews.compare(`Restore ${count(preview.files.length, "file")}`, preview.files);
    const again = await vscode.window.showInformationMessage(`Roo: the changes of the restore are shown. Restore ${count(preview.files.length, "file")}?`, yes);
    if (again !== yes) return;
  } else if (chosen === mark) {
    return confirmed(connection, previews, { ...wanted, conflicts: "mark" });
  } else if (chosen !== yes) {
    return;
  }
  // Exactly what was shown, or nothing.
  const { restoredAs } = await ask({ ...wanted, digest: preview.digest });
  const undo = "Undo";
  const answer = await vscode.window.showInformationMessage("Roo: restored.", ...(restoredAs == null ? [] : [undo]));
  if (answer === undo && restoredAs != null) await ask({ taskId: wanted.taskId, seq: restoredAs, what: wanted.what });
}

function inWords({ files, conflicts, leftOut, conversation }: CheckpointRestoreResult): string {
  const list = (title: string, lines: readonly string[]): string => (lines.length > 0 ? `${title}\n${lines.map((line) => `• ${line}`).join("\n")}` : "");
  const change = (before: unknown, after: unknown): string => (after == null ? " (deleted)" : before == null ? " (created again)" : "");
  return [
    list("These files change:", files.map(({ path, before, after }) => `${path}${change(before, after)}`)),
    list("You have changed these in the same place since:", conflicts.map(({ path, reason, marked }) => `${path}: ${marked ? "both versions, between conflict markers" : reason}`)),
    list("These can't be restored:", leftOut.map(({ path, reason }) => `${path}: ${reason}`)),
    conversation ? `The agent no longer sees ${count(conversation.dropped, "message or result", "messages and results")}. The log keeps them.` : "",
    "It can be undone.",
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** A number of things. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
