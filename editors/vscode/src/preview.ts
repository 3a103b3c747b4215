// What an approval is about, as documents: the texts before and after, or else the words of the server.
import * as vscode from "vscode";
import type { FilePreview, PendingApproval } from "./protocol.ts";
import { isDiff } from "./words.ts";

/** Shows previews, and closes them when they are answered. */
export class Previews implements vscode.TextDocumentContentProvider, vscode.Disposable {
  static readonly scheme = "roo-preview";
  readonly #texts = new Map<string, string>();
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.#changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.toString()) ?? "This has already been answered.";
  }

  /** Opens what is asked about. Returns the documents with the texts after, one for each file. */
  async open(approval: PendingApproval, files: readonly FilePreview[]): Promise<vscode.Uri[]> {
    const { approvalId, title } = approval;
    const options: vscode.TextDocumentShowOptions = { preview: true };
    const shown = files.map((file) => {
      const uri = vscode.Uri.parse(file.uri);
      return { uri, left: this.#put(approvalId, uri.path, "before", file.before ?? ""), right: this.#put(approvalId, uri.path, "after", file.after) };
    });
    const [first, ...rest] = shown;
    if (first === undefined) {
      const name = isDiff(approval.subject) ? `${title.replaceAll("/", "∕")}.diff` : `${title.replaceAll("/", "∕")}.txt`;
      const document = await vscode.workspace.openTextDocument(this.#put(approvalId, `/${name}`, "subject", approval.subject));
      await vscode.window.showTextDocument(document, options);
    } else if (rest.length === 0) {
      await vscode.commands.executeCommand("vscode.diff", first.left, first.right, title, options);
    } else {
      const all = [first, ...rest].map(({ uri, left, right }) => [uri, left, right]);
      await vscode.commands.executeCommand("vscode.changes", title, all);
    }
    return shown.map(({ right }) => right);
  }

  /** Shows what files would become. */
  async compare(title: string, files: readonly { readonly uri: string; readonly before?: string | null; readonly after?: string | null }[]): Promise<void> {
    const all = files.map((file) => {
      const uri = vscode.Uri.parse(file.uri);
      return [uri, this.#put("", uri.path, "before", file.before ?? ""), this.#put("", uri.path, "after", file.after ?? "")];
    });
    await vscode.commands.executeCommand("vscode.changes", title, all);
  }

  /** Changes the text of a document that is open. */
  update(uri: vscode.Uri, text: string): void {
    const key = uri.toString();
    if (!this.#texts.has(key) || this.#texts.get(key) === text) return;
    this.#texts.set(key, text);
    this.#changed.fire(uri);
  }

  /** The approval that a document is a preview of; that of the editor in front when none is named. */
  approvalOf(uri: unknown): string | undefined {
    if (uri instanceof vscode.Uri && uri.scheme === Previews.scheme) return approvalIn(uri);
    const active = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
    return active instanceof vscode.TabInputTextDiff && active.modified.scheme === Previews.scheme
      ? approvalIn(active.modified)
      : undefined;
  }

  /** Closes what shows an approval. */
  async close(approvalId: string): Promise<void> {
    const about = (uri: vscode.Uri): boolean => uri.scheme === Previews.scheme && approvalIn(uri) === approvalId;
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => {
        if (input instanceof vscode.TabInputTextDiff) return about(input.modified);
        return input instanceof vscode.TabInputText && about(input.uri);
      });
    for (const key of this.#texts.keys()) if (about(vscode.Uri.parse(key))) this.#texts.delete(key);
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
  }

  dispose(): void {
    this.#changed.dispose();
    this.#texts.clear();
  }

  #put(approvalId: string, path: string, side: string, text: string): vscode.Uri {
    const uri = vscode.Uri.from({ scheme: Previews.scheme, path, query: new URLSearchParams({ approvalId, side }).toString() });
    const before = this.#texts.get(uri.toString());
    this.#texts.set(uri.toString(), text);
    if (before !== undefined && before !== text) this.#changed.fire(uri);
    return uri;
  }
}

function approvalIn(uri: vscode.Uri): string | undefined {
  return new URLSearchParams(uri.query).get("approvalId") ?? undefined;
}
