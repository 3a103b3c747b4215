// The invocation tree: who works on what.
import * as vscode from "vscode";
import type { TaskId, TaskState, TreeNode } from "./protocol.ts";
import type { Store } from "./store.ts";
import { cost, STATES } from "./words.ts";

const ICONS: Record<TaskState, vscode.ThemeIcon> = {
  running: new vscode.ThemeIcon("sync~spin"),
  waiting: new vscode.ThemeIcon("question", new vscode.ThemeColor("charts.yellow")),
  paused: new vscode.ThemeIcon("debug-pause"),
  interrupted: new vscode.ThemeIcon("warning", new vscode.ThemeColor("charts.orange")),
  completed: new vscode.ThemeIcon("pass", new vscode.ThemeColor("charts.green")),
  failed: new vscode.ThemeIcon("error", new vscode.ThemeColor("errorForeground")),
  cancelled: new vscode.ThemeIcon("circle-slash"),
};

const ACTIVE: readonly TaskState[] = ["running", "waiting", "paused"];

/** The tree of the request that is shown. */
export class InvocationTree implements vscode.TreeDataProvider<TreeNode>, vscode.Disposable {
  readonly #store: Store;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #subscriptions: vscode.Disposable[];
  readonly onDidChangeTreeData = this.#changed.event;
  #nodes: readonly TreeNode[] = [];

  constructor(store: Store) {
    this.#store = store;
    // Most events leave the tree as it is.
    const look = (): void => {
      const nodes = store.shown?.nodes ?? [];
      if (nodes === this.#nodes) return;
      this.#nodes = nodes;
      this.#changed.fire();
    };
    this.#subscriptions = [store.onDidChange(look), store.onDidReset(look)];
  }

  getChildren(parent?: TreeNode): TreeNode[] {
    return (this.#store.shown?.nodes ?? []).filter((node) => (node.parentId ?? undefined) === parent?.id);
  }

  getParent(node: TreeNode): TreeNode | undefined {
    return this.#node(node.parentId ?? undefined);
  }

  getTreeItem(node: TreeNode): vscode.TreeItem {
    const item = new vscode.TreeItem(`${node.emoji} ${node.title}`, vscode.TreeItemCollapsibleState.Expanded);
    const isLeaf = this.getChildren(node).length === 0;
    if (isLeaf) item.collapsibleState = vscode.TreeItemCollapsibleState.None;
    const { word } = STATES[node.state];
    const used = cost(node.tokens, node.costUsd);
    // VS Code remembers how a node was folded; one that gets its first branch is a new one, and open.
    item.id = isLeaf ? node.id : `${node.id}+`;
    // The icon says the state as well, and the emoji the mode; a tree is narrow.
    item.description = [used, word].filter(Boolean).join(" · ");
    item.tooltip = `${node.title}\n${[node.mode, word, used].filter(Boolean).join(" · ")}`;
    item.iconPath = ICONS[node.state];
    item.contextValue = ACTIVE.includes(node.state) ? "active" : "ended";
    item.accessibilityInformation = { label: `${node.mode}: ${node.title}, ${word}${used ? `, ${used}` : ""}` };
    item.command = { command: "roo.openBranch", title: "Show Only This Branch", arguments: [node] };
    return item;
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#changed.dispose();
  }

  #node(id: TaskId | undefined): TreeNode | undefined {
    return this.#store.shown?.nodes.find((node) => node.id === id);
  }
}
