// What a task has changed: file by file and change by change, shown as a diff, opened in its place, and undone.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import { inWords } from "./failures.ts";
import type { Previews } from "./preview.ts";
import type { ChangedFile, ChangesUndoParams, HunkKind, RecordedChange, TaskId } from "./protocol.ts";
import { plain } from "./words.ts";

/** Who is asked. */
type Asked = Pick<Connection, "request" | "document">;
type Shown = Pick<Previews, "compare">;

interface Row extends vscode.QuickPickItem {
  /** What the row is about; none for all files. */
  readonly file?: ChangedFile;
  /** The one change that the row is about. */
  readonly change?: RecordedChange;
}

const UNDO = { iconPath: new vscode.ThemeIcon("discard"), tooltip: "Undo" };

const DID: Record<HunkKind, string> = { create: "created", delete: "deleted", move: "moved", edit: "changed" };

/** The changes that a file still has, from its begin to its end. What was undone or changed again since has no line. */
function present({ changes }: ChangedFile): RecordedChange[] {
  return changes.filter((change) => change.line != null).sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

function isDeleted(file: ChangedFile): boolean {
  return present(file).some(({ kind }) => kind === "delete");
}

/** The lines of a text, with their ends. */
function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+/g) ?? [];
}

/** A text as it would be without the changes that it has. */
export function without(text: string, file: ChangedFile): string {
  const lines = linesOf(text);
  // From the end, so that lines before keep their numbers.
  for (const { line, oldText, newText } of present(file).reverse()) {
    lines.splice((line ?? 1) - 1, linesOf(newText).length, oldText);
  }
  return lines.join("");
}

/** The rows of the list: the files, each with what was changed in it. */
export function rowsOf(files: readonly ChangedFile[]): Row[] {
  const rows = files.flatMap((file): Row[] => {
    const changes = present(file);
    if (changes.length === 0) return [];
    const deleted = isDeleted(file);
    const count = deleted ? "deleted" : changes.length === 1 ? "1 change" : `${changes.length} changes`;
    return [
      { label: `$(file) ${plain(file.path)}`, description: count, buttons: [UNDO], file },
      ...(deleted ? [] : changes).map((change): Row => {
        const did = DID[change.kind ?? "edit"];
        const text = linesOf(change.newText)[0] ?? linesOf(change.oldText)[0] ?? "";
        const by = change.byUser ? `${did} with your lines (${change.tool})` : `${did} (${change.tool})`;
        return { label: `\u2003${change.line}: ${plain(text.trim())}`, description: by, buttons: [UNDO], file, change };
      }),
    ];
  });
  return rows.length === 0 ? [] : [{ label: "$(diff-multiple) Show all changes" }, ...rows];
}

/** Lists what a task has changed until the user closes the list or looks at a row. */
export async function showChanges(connection: Asked, previews: Shown, taskId: TaskId): Promise<void> {
  const ask = async (): Promise<ChangedFile[]> => (await connection.request("roo/changes/list", { taskId })).files;
  let files = await ask();
  const rows = rowsOf(files);
  if (rows.length === 0) return void vscode.window.showInformationMessage("Roo: this task has changed no files, or nothing of it is left.");
  const list = vscode.window.createQuickPick<Row>();
  list.title = "Changes of the task";
  list.placeholder = "Select a file to see its changes, or a change to go there";
  list.matchOnDescription = true;
  list.items = rows;
  try {
    list.show();
    const picked = await new Promise<Row | undefined>((resolve) => {
      list.onDidTriggerItemButton(({ item }) => {
        void undo(connection, taskId, item)
          .then(async () => {
            files = await ask();
            list.items = rowsOf(files);
            if (list.items.length === 0) resolve(undefined);
          })
          .catch((error: unknown) => vscode.window.showErrorMessage(`Roo: ${inWords(error)}`));
      });
      list.onDidAccept(() => resolve(list.selectedItems[0]));
      list.onDidHide(() => resolve(undefined));
    });
    if (picked?.file && picked.change) await goTo(connection, picked.file, picked.change);
    else if (picked) await compare(connection, previews, picked.file ? [picked.file] : files);
  } finally {
    list.dispose();
  }
}

/** Undoes a change or all of a file, and says what was not undone. */
async function undo(connection: Asked, taskId: TaskId, { file, change }: Row): Promise<void> {
  const about: Omit<ChangesUndoParams, "taskId"> = change ? { changeIds: [change.changeId] } : { path: file?.path ?? null };
  const { undone, conflicts } = await connection.request("roo/changes/undo", { taskId, ...about });
  const done = `${undone.length} ${undone.length === 1 ? "change" : "changes"} undone`;
  const [conflict] = conflicts;
  if (conflict) void vscode.window.showWarningMessage(`Roo: ${done}, ${conflicts.length} not: ${conflict.reason}`);
  else void vscode.window.showInformationMessage(`Roo: ${done}.`);
}

async function goTo(connection: Asked, file: ChangedFile, { line, newText }: RecordedChange): Promise<void> {
  const document = await vscode.workspace.openTextDocument(connection.document(file.uri));
  const begin = (line ?? 1) - 1;
  const selection = new vscode.Range(begin, 0, begin + linesOf(newText).length, 0);
  await vscode.window.showTextDocument(document, { selection });
}

/** Shows files as they are beside what they would be without the changes of the task. */
async function compare(connection: Asked, previews: Shown, files: readonly ChangedFile[]): Promise<void> {
  const shown = files.filter((file) => present(file).length > 0).map(async (file) => {
    const text = isDeleted(file) ? "" : (await vscode.workspace.openTextDocument(connection.document(file.uri))).getText();
    return { uri: file.uri, before: without(text, file), after: text };
  });
  const [only] = files.length === 1 ? files : [];
  await previews.compare(only ? `Changes of the task in ${only.path}` : "Changes of the task", await Promise.all(shown));
}
