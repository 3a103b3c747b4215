// What may happen without a question, in view and to be changed where it is seen.
import type { FromPage } from "../chat/messages.ts";
import type { AutoApprove, AutoApproveKey } from "../settings.ts";
import { h } from "./dom.ts";

const KINDS: readonly { readonly key: AutoApproveKey; readonly short: string; readonly label: string }[] = [
  { key: "read", short: "reads", label: "Read files" },
  { key: "write", short: "edits", label: "Edit files" },
  { key: "execute", short: "commands", label: "Run commands that stay in the sandbox (trusted workspace)" },
  { key: "mcp", short: "MCP", label: "Call tools of MCP servers" },
  { key: "delegate", short: "subtasks", label: "Start subtasks" },
];

/** The line above the composer. */
export class AutoApproval {
  readonly #summary = h("summary", {});
  readonly #boxes = new Map<AutoApproveKey, HTMLInputElement>();
  /** What was changed here and is not the setting yet. */
  readonly #wanted = new Map<AutoApproveKey, boolean>();
  readonly element: HTMLDetailsElement;

  constructor(post: (message: FromPage) => void) {
    const rows = KINDS.map(({ key, label }) => {
      const box = h("input", { type: "checkbox", "data-auto": key });
      box.addEventListener("change", () => {
        this.#wanted.set(key, box.checked);
        post({ type: "autoApprove", key, on: box.checked });
      });
      this.#boxes.set(key, box);
      return h("label", {}, box, label);
    });
    this.element = h(
      "details",
      { id: "auto", hidden: true },
      this.#summary,
      h("fieldset", {}, h("legend", { class: "unseen" }, "Actions that run without asking"), ...rows),
      h("p", { class: "reason" }, "Counts for all your workspaces. Protected files and single commands have ", h("button", { type: "button", class: "link", click: () => post({ type: "settings", query: "roo.autoApprove" }) }, "settings"), " and ", h("button", { type: "button", class: "link", click: () => post({ type: "rules" }) }, "rules"), " of their own."),
    );
  }

  /** A change has failed. */
  failed(): void {
    this.#wanted.clear();
  }

  /** Shows what is allowed. */
  update(allowed: AutoApprove | undefined): void {
    this.element.hidden = allowed === undefined;
    if (!allowed) return;
    const on = KINDS.filter(({ key }) => allowed[key]).map(({ short }) => short);
    this.#summary.textContent = `Auto-approve: ${on.length > 0 ? on.join(", ") : "nothing"}`;
    for (const [key, box] of this.#boxes) {
      if (this.#wanted.get(key) === allowed[key]) this.#wanted.delete(key);
      box.checked = this.#wanted.get(key) ?? allowed[key];
    }
  }
}
