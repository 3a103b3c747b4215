// What stands beside the chat in an editor: the tree, the trace and the settings. On a wide page it is at the side, on a narrow one
// it takes the place of the chat.
import type { Server } from "../controller.ts";
import type { McpServerItem, TreeNode } from "../protocol.ts";
import type { Store } from "../store.ts";
import { h } from "../webview/dom.ts";
import { choose, notify } from "./dialogs.ts";
import { files, intents, timeline } from "./trace.ts";
import { tree } from "./tree.ts";

/** What a panel shows. */
const VIEWS = { tree: "Tree", timeline: "Timeline", intents: "Intents", files: "Who wrote what", settings: "Settings" } as const;
type View = keyof typeof VIEWS;

/** The most records of the trace that are asked for. */
const RECORDS = 500;

/** A server's state in words. */
const stateOf = (state: McpServerItem["state"]): string =>
  ({ disabled: "switched off", waitingForApproval: "waits for your approval in your editor", notStarted: "starts at its first call", starting: "starting", needsLogin: "needs login", connected: "connected", failed: "failed" })[state];

/** What the panel works with. */
export interface PanelParts {
  readonly store: Store;
  readonly server: Server;
  readonly showBranch: (node: TreeNode | undefined) => void;
  readonly failed: (error: unknown) => void;
}

/** The panel. */
export class Panel {
  readonly #parts: PanelParts;
  readonly #tabs: ReadonlyMap<View, HTMLButtonElement>;
  readonly #content = h("div", { id: "panel-content", role: "tabpanel", tabindex: "0" });
  readonly element: HTMLElement;
  #view: View | undefined;
  /** Counts what was asked: an answer that is overtaken by another view is dropped. */
  #asked = 0;

  constructor(parts: PanelParts) {
    this.#parts = parts;
    const tabs = Object.entries(VIEWS).map(([view, name]) => {
      const tab = h("button", { type: "button", role: "tab", "data-view": view, "aria-selected": "false", "aria-controls": "panel-content", click: () => this.show(view as View) }, name);
      return [view as View, tab] as const;
    });
    this.#tabs = new Map(tabs);
    const close = h("button", { type: "button", class: "icon", "aria-label": "Close", title: "Close (Escape)", click: () => this.close() }, "×");
    this.element = h("aside", { id: "panel", "aria-label": "Tree, trace and settings", hidden: true }, h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": "Views" }, ...tabs.map(([, tab]) => tab)), close), this.#content);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
      const all = [...this.#tabs.values()];
      const at = all.indexOf(document.activeElement as HTMLButtonElement);
      if (at < 0) return;
      all[(at + (event.key === "ArrowRight" ? 1 : all.length - 1)) % all.length]?.focus();
    });
    // The tree follows what happens; the trace is asked for when it is looked at.
    const look = (): void => {
      if (this.#view === "tree") this.#draw(tree(parts.store.shown, (node) => this.#showBranch(node)));
    };
    parts.store.onDidChange(look);
    parts.store.onDidReset(look);
  }

  /** Opens it with a view, or closes it where that is open. */
  toggle(view: View): void {
    if (this.#view === view) this.close();
    else this.show(view);
  }

  /** Shows a view. */
  show(view: View): void {
    this.#view = view;
    for (const [one, tab] of this.#tabs) tab.setAttribute("aria-selected", String(one === view));
    this.#content.setAttribute("aria-label", VIEWS[view]);
    this.element.hidden = false;
    document.body.classList.add("with-panel");
    this.#asked += 1;
    const mine = this.#asked;
    const shown = this.#element(view);
    shown.then(
      (element) => mine === this.#asked && this.#draw(element),
      (error: unknown) => this.#parts.failed(error),
    );
  }

  /** Closes it. */
  close(): void {
    this.#view = undefined;
    this.#asked += 1;
    this.element.hidden = true;
    document.body.classList.remove("with-panel");
  }

  #draw(element: HTMLElement): void {
    this.#content.replaceChildren(element);
  }

  async #element(view: View): Promise<HTMLElement> {
    const { server, store } = this.#parts;
    switch (view) {
      case "tree":
        return tree(store.shown, (node) => this.#showBranch(node));
      case "timeline":
        return timeline((await server.request("roo/trace/query", { limit: RECORDS })).records);
      case "files":
        return files((await server.request("roo/trace/query", { limit: RECORDS })).records);
      case "intents":
        return intents(await server.request("roo/intent/list", {}));
      case "settings":
        return this.#settings();
    }
  }

  #showBranch(node: TreeNode | undefined): void {
    this.#parts.showBranch(node);
    // On a narrow page it covers what was asked for.
    if (getComputedStyle(this.element).position === "fixed" && this.element.clientWidth >= innerWidth) this.close();
  }

  async #settings(): Promise<HTMLElement> {
    const { server, failed } = this.#parts;
    const [{ settings }, { profiles }, { trusted }, { rules }, { servers }] = await Promise.all([
      server.request("roo/autoApprove/get", {}),
      server.request("roo/profile/list", {}),
      server.request("roo/trust/get", {}),
      server.request("roo/rule/list", {}),
      server.request("roo/mcp/list", {}),
    ]);
    // What takes something away is done here; what gives something is not.
    const button = (text: string, label: string, done: string, change: () => Promise<unknown>): HTMLElement => {
      const run = async (): Promise<void> => {
        await change();
        void notify("info", done, []);
        this.show("settings");
      };
      return h("button", { type: "button", "aria-label": label, click: () => void run().catch(failed) }, text);
    };
    const serverRow = ({ name, state, reason }: McpServerItem): HTMLElement[] => {
      const off = button("Switch off", `Switch off ${name}`, `Switched off: ${name}`, () => server.request("roo/mcp/enable", { server: name, enabled: false }));
      const restart = button("Restart", `Restart ${name}`, `Restarted: ${name}`, () => server.request("roo/mcp/restart", { server: name }));
      const runs = state !== "disabled" && state !== "waitingForApproval";
      return [h("dt", {}, name), h("dd", {}, stateOf(state), reason ? h("span", { class: "reason" }, ` ${reason}`) : undefined, " ", runs && restart, runs && " ", state !== "disabled" && off)];
    };
    const row = (name: string, value: string, origin?: string | null): HTMLElement[] => [h("dt", {}, name), h("dd", {}, value, origin ? h("span", { class: "reason" }, ` ${origin}`) : undefined)];
    const revoke = async (): Promise<void> => {
      const rule = await choose("Remove which standing rule?", "Search rules", rules.map((one) => ({ label: one.text, description: `${one.verdict} by ${one.by}`, ruleId: one.ruleId })));
      if (!rule) return;
      await server.request("roo/rule/revoke", { ruleId: rule.ruleId });
      void notify("info", `Removed the rule: ${rule.label}`, []);
      this.show("settings");
    };
    return h(
      "div",
      {},
      h("h2", {}, "Runs without asking"),
      h("dl", {}, ...settings.flatMap(({ key, value, origin }) => row(key, typeof value === "string" ? value : JSON.stringify(value), origin))),
      h("h2", {}, "Models"),
      h("dl", {}, ...profiles.flatMap((profile) => row(profile.name, [profile.model, profile.provider, profile.isDefault && "default"].filter(Boolean).join(" · ")))),
      h("h2", {}, "Workspace"),
      h("dl", {}, ...row("trusted", trusted ? "yes" : "no"), ...row("standing rules", String(rules.length))),
      trusted && button("Revoke trust", "Revoke trust in this workspace", "The workspace is not trusted any more.", () => server.request("roo/trust/revoke", {})),
      rules.length > 0 && h("button", { type: "button", click: () => void revoke().catch(this.#parts.failed) }, "Remove a standing rule…"),
      servers.length > 0 && h("h2", {}, "MCP servers"),
      servers.length > 0 && h("dl", {}, ...servers.flatMap(serverRow)),
      h("p", { class: "reason" }, "What agents have can be taken away here. Whatever gives them more — settings, models, trust, servers — is changed in your editor, in config.yaml, or with roo-lsp. A change counts at once."),
    );
  }
}
