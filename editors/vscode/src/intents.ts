// The intents of the workspace: what agents are to work on, and which files each goal owns. Only shown and chosen here;
// the user writes them in their file.
import * as vscode from "vscode";
import type { IntentItem, IntentListResult } from "./protocol.ts";

/** An intent, one of its sentences, or what is wrong with their file. */
export type Row =
  | { readonly kind: "intent"; readonly intent: IntentItem }
  | { readonly kind: "detail"; readonly intent: IntentItem; readonly text: string; readonly icon: string }
  | { readonly kind: "problem"; readonly text: string };

const FILE = ".orchestration/active_intents.yaml";

const ICONS: Record<string, vscode.ThemeIcon> = {
  PENDING: new vscode.ThemeIcon("circle-large-outline"),
  IN_PROGRESS: new vscode.ThemeIcon("play-circle"),
  BLOCKED: new vscode.ThemeIcon("stop-circle", new vscode.ThemeColor("charts.orange")),
  COMPLETED: new vscode.ThemeIcon("pass", new vscode.ThemeColor("charts.green")),
  ABANDONED: new vscode.ThemeIcon("circle-slash"),
};

/** The view of them, which is there where a workspace has any. */
export class Intents implements vscode.TreeDataProvider<Row>, vscode.Disposable {
  readonly #ask: () => Promise<IntentListResult | undefined>;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #watcher = vscode.workspace.createFileSystemWatcher("**/.{orchestration/active_intents.yaml,intentignore}");
  readonly onDidChangeTreeData = this.#changed.event;
  #list: IntentListResult | undefined;
  /** Counts what was asked: an answer that is overtaken by a newer one is dropped. */
  #asked = 0;
  #view: vscode.TreeView<Row> | undefined;

  /** `ask` gets the list; none while nobody can be asked. */
  constructor(ask: () => Promise<IntentListResult | undefined>) {
    this.#ask = ask;
    const soon = (): void => void this.refresh();
    this.#watcher.onDidChange(soon);
    this.#watcher.onDidCreate(soon);
    this.#watcher.onDidDelete(soon);
  }

  /** Knows the view from now on, for actions that come without a row. */
  bind(view: vscode.TreeView<Row>): vscode.TreeView<Row> {
    this.#view = view;
    return view;
  }

  /** The row that an action is about. The editor names none while it fetches the rows again. */
  rowOf(named: unknown): Row | undefined {
    return (named as Row | undefined) ?? this.#view?.selection[0];
  }

  /** Asks for them again. */
  async refresh(): Promise<void> {
    const mine = (this.#asked += 1);
    // What was shown stays while the server is gone.
    const list = await this.#ask().catch(() => this.#list);
    if (mine !== this.#asked) return;
    this.#list = list;
    await vscode.commands.executeCommand("setContext", "roo.governed", this.#list?.governed === true);
    this.#changed.fire();
  }

  getChildren(of?: Row): Row[] {
    if (of === undefined) {
      const problems = (this.#list?.problems ?? []).map((text): Row => ({ kind: "problem", text }));
      return [...problems, ...(this.#list?.intents ?? []).map((intent): Row => ({ kind: "intent", intent }))];
    }
    if (of.kind !== "intent") return [];
    const { intent } = of;
    const rows = (texts: readonly string[], icon: string): Row[] => texts.map((text) => ({ kind: "detail", intent, text, icon }));
    return [
      ...rows(intent.ownedScope, "file"),
      ...rows(intent.constraints, "law"),
      ...rows(intent.acceptanceCriteria, "checklist"),
      ...rows(intent.loosened.map((text) => `You have not accepted: ${text}`), "warning"),
    ];
  }

  getTreeItem(row: Row): vscode.TreeItem {
    if (row.kind === "problem") {
      const item = new vscode.TreeItem(row.text);
      item.iconPath = new vscode.ThemeIcon("error", new vscode.ThemeColor("errorForeground"));
      item.tooltip = row.text;
      item.command = { command: "roo.openIntents", title: "Open" };
      return item;
    }
    const { intent } = row;
    if (row.kind === "detail") {
      const item = new vscode.TreeItem(row.text);
      item.iconPath = new vscode.ThemeIcon(row.icon);
      item.tooltip = row.text;
      return item;
    }
    const state = intent.status.toLowerCase().replaceAll("_", " ");
    const item = new vscode.TreeItem(intent.name, vscode.TreeItemCollapsibleState.Collapsed);
    item.id = intent.intentId;
    item.description = `${intent.intentId} · ${state}`;
    item.tooltip = `${intent.name}\n${intent.intentId} · ${state}\n${intent.ownedScope.join("\n")}`;
    item.iconPath = ICONS[intent.status] ?? new vscode.ThemeIcon("question");
    item.contextValue = intent.selectable ? "selectable" : "closed";
    item.accessibilityInformation = { label: `${intent.intentId}: ${intent.name}, ${state}` };
    return item;
  }

  /** Opens their file, at one of them. */
  async open(row?: Row): Promise<void> {
    const folder = vscode.workspace.workspaceFolders?.[0];
    if (!folder) return;
    const document = await vscode.workspace.openTextDocument(vscode.Uri.joinPath(folder.uri, FILE));
    if (row === undefined || row.kind === "problem") return void (await vscode.window.showTextDocument(document));
    const at = document.getText().search(new RegExp(`\\bid:\\s*["']?${row.intent.intentId.replaceAll(".", "\\.")}(?![\\w.-])`));
    const place = document.positionAt(Math.max(0, at));
    await vscode.window.showTextDocument(document, { selection: new vscode.Range(place, place) });
  }

  dispose(): void {
    this.#watcher.dispose();
    this.#changed.dispose();
  }
}

/** Asks the user, where an intent allows more than they have accepted. Whether it may be selected. */
export async function accepts(intent: IntentItem): Promise<boolean> {
  if (intent.loosened.length === 0) return true;
  const yes = "Accept";
  const detail = `It allows more than you have accepted: ${intent.loosened.join("; ")}`;
  return (await vscode.window.showWarningMessage(`Select ${intent.intentId}?`, { modal: true, detail }, yes)) === yes;
}
