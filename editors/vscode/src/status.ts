// The status bar: what the request that is shown does, and what waits.
import * as vscode from "vscode";
import { isActive, overallState, root, total, waiting, type Request } from "./state.ts";
import type { Store } from "./store.ts";
import { cost, STATES } from "./words.ts";

/** The entry in the status bar. */
export class Status implements vscode.Disposable {
  readonly #item = vscode.window.createStatusBarItem("roo.status", vscode.StatusBarAlignment.Left, 10);
  readonly #store: Store;
  readonly #subscriptions: vscode.Disposable[];
  #problem: string | undefined;
  #typed = true;

  constructor(store: Store) {
    this.#store = store;
    this.#item.name = "Roo";
    this.#item.command = "roo.chat.focus";
    const draw = (): void => this.#draw();
    this.#subscriptions = [store.onDidChange(draw), store.onDidReset(draw)];
    this.#draw();
    this.#item.show();
  }

  /** The server doesn't run; none when it does. */
  problem(problem: string | undefined, typed = true): void {
    this.#problem = problem;
    this.#typed = typed;
    this.#item.command = problem !== undefined ? "roo.showLog" : typed ? "roo.chat.focus" : "roo.status";
    this.#draw();
  }

  dispose(): void {
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#item.dispose();
  }

  #draw(): void {
    const { text, tooltip, urgent } = this.#problem !== undefined
      ? { text: "$(error) Roo", tooltip: this.#problem, urgent: false }
      : this.#typed
        ? inWords(this.#store.shown)
        : { text: "$(hubot) Roo", tooltip: "Roo (plain LSP)", urgent: false };
    this.#item.text = text;
    this.#item.tooltip = tooltip;
    this.#item.accessibilityInformation = { label: tooltip };
    this.#item.backgroundColor = urgent ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}

function inWords(request: Request | undefined): { text: string; tooltip: string; urgent: boolean } {
  const task = request && root(request);
  if (!request || !task) return { text: "$(hubot) Roo", tooltip: "Roo: no task is open", urgent: false };
  const asks = waiting(request);
  const { tokens, costUsd } = total(request);
  const used = cost(tokens, costUsd);
  const what = `${request.title}${used ? `, ${used}` : ""}`;
  if (asks.length > 0 && isActive(request)) {
    const first = asks[0]?.approval?.title ?? asks[0]?.question?.text ?? "";
    return { text: `$(question) Roo: ${asks.length} waiting`, tooltip: `Roo waits for you: ${first} (${what})`, urgent: true };
  }
  const state = overallState(request);
  const { word } = STATES[state];
  const icon = state === "running" ? "$(sync~spin)" : "$(hubot)";
  const price = costUsd > 0 ? ` · ${cost(0, costUsd)}` : "";
  return { text: `${icon} Roo: ${task.mode} ${word}${price}`, tooltip: `Roo: ${word}, ${what}`, urgent: false };
}
