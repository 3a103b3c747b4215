// A task that another window works on, as a document to read: the server's program writes it from the log.
import * as vscode from "vscode";
import { complaint, type RunProgram } from "./cli.ts";
import type { TaskId } from "./protocol.ts";

/** Shows copies of tasks; they are brought up to date whenever the user comes back to this window. */
export class TaskCopies implements vscode.TextDocumentContentProvider, vscode.Disposable {
  static readonly scheme = "roo-task";
  readonly #run: () => RunProgram | undefined;
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #subscription: vscode.Disposable;
  readonly onDidChange = this.#changed.event;

  constructor(run: () => RunProgram | undefined) {
    this.#run = run;
    this.#subscription = vscode.window.onDidChangeWindowState(({ focused }) => {
      if (!focused) return;
      for (const { uri } of vscode.workspace.textDocuments) if (uri.scheme === TaskCopies.scheme) this.#changed.fire(uri);
    });
  }

  /** Opens the copy of a task, as it is now. */
  async open(taskId: TaskId, title: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: TaskCopies.scheme, path: `/${title.replaceAll("/", "∕")} (read-only).md`, query: taskId });
    this.#changed.fire(uri);
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri));
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    const run = this.#run();
    if (!run || folder === undefined) throw new Error("There is no server to ask.");
    const ran = await run(["tasks", "export", uri.query, "--workspace", folder]);
    if (ran.code !== 0) throw new Error(complaint(ran));
    return ran.stdout;
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#changed.dispose();
  }
}
