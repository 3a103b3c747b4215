// Earlier requests, to be searched and filtered.
import type { FromPage } from "../chat/messages.ts";
import type { HistoryItem, TaskState } from "../protocol.ts";
import { allTokens } from "../state.ts";
import { cost, STATES, when } from "../words.ts";
import { h } from "./dom.ts";
import { icon } from "./icons.ts";

/** What can be chosen besides a text. */
const FILTERS: Record<string, { readonly label: string; readonly states: readonly TaskState[] }> = {
  all: { label: "All", states: ["running", "waiting", "paused", "interrupted", "completed", "failed", "cancelled"] },
  open: { label: "Unfinished", states: ["running", "waiting", "paused", "interrupted"] },
  completed: { label: "Completed", states: ["completed"] },
  failed: { label: "Failed or cancelled", states: ["failed", "cancelled"] },
};

/** The requests that a search leaves: each word in the title, the mode or the id. */
export function found(items: readonly HistoryItem[], search: string, filter: string): readonly HistoryItem[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const states = (FILTERS[filter] ?? FILTERS["all"])?.states ?? [];
  return items.filter((item) => {
    const text = `${item.title} ${item.mode} ${item.urid}`.toLowerCase();
    return states.includes(item.state) && words.every((word) => text.includes(word));
  });
}

/** The panel with the history. */
export class History {
  readonly #post: (message: FromPage) => void;
  readonly #leave: () => void;
  readonly #search = h("input", { type: "search", placeholder: "Search tasks", "aria-label": "Search tasks" });
  readonly #filter = h("select", { "aria-label": "Show" }, ...Object.entries(FILTERS).map(([key, { label }]) => h("option", { value: key }, label)));
  readonly #count = h("p", { class: "reason", role: "status" });
  readonly #list = h("ul", {});
  readonly #more = h("button", { type: "button", class: "secondary", hidden: true }, "Show more");
  readonly element: HTMLElement;
  #items: readonly HistoryItem[] = [];

  /** `leave` takes the focus when it closes. */
  constructor(post: (message: FromPage) => void, leave: () => void) {
    this.#post = post;
    this.#leave = leave;
    const close = h("button", { type: "button", class: "icon", "aria-label": "Close", title: "Close (Escape)", click: () => this.#close() }, icon("close"));
    this.element = h(
      "main",
      { id: "history", "aria-label": "History", hidden: true },
      h("div", { class: "top" }, h("h1", {}, "History"), close),
      h("div", { class: "search" }, this.#search, this.#filter),
      this.#count,
      this.#list,
      this.#more,
    );
    this.#search.addEventListener("input", () => this.#draw());
    this.#filter.addEventListener("change", () => this.#draw());
    this.#more.addEventListener("click", () => this.#post({ type: "history", more: true }));
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const entries = [...this.#list.querySelectorAll<HTMLElement>(".entry")];
      const at = entries.indexOf(document.activeElement as HTMLElement);
      if (at < 0 && document.activeElement !== this.#search) return;
      event.preventDefault();
      const next = event.key === "ArrowDown" ? entries[at + 1] : at > 0 ? entries[at - 1] : this.#search;
      next?.focus();
    });
  }

  /** Shows these requests. Those that come as `more` are put behind what is there. */
  show(items: readonly HistoryItem[], more: boolean, appended: boolean): void {
    const wasOpen = !this.element.hidden;
    this.#items = appended ? [...this.#items, ...items] : items;
    this.#more.hidden = !more;
    this.#draw();
    this.element.hidden = false;
    document.body.classList.add("browsing");
    // A list that is drawn again keeps the focus of whoever is in it.
    if (!wasOpen || document.activeElement === document.body) this.#search.focus();
  }

  #draw(): void {
    const now = Date.now();
    const items = found(this.#items, this.#search.value, this.#filter.value);
    const used = items.reduce((sum, item) => sum + (item.usage.costUsd ?? 0), 0);
    this.#count.textContent =
      this.#items.length === 0 ? "There are no earlier tasks." : [`${items.length} of ${this.#items.length} tasks`, cost(0, used)].filter(Boolean).join(" · ");
    this.#list.replaceChildren(...items.map((item) => this.#entry(item, now)));
  }

  #entry(item: HistoryItem, now: number): HTMLElement {
    const { sign, word } = STATES[item.state];
    const rest = [word, item.mode, when(item.updatedAt, now), cost(allTokens(item.usage), item.usage.costUsd ?? 0)].filter(Boolean).join(" · ");
    const open = (): void => {
      this.#post({ type: "open", taskId: item.taskId, title: item.title });
      this.#close();
    };
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "entry", "data-task": item.taskId, click: open },
        h("span", { class: "title" }, item.title),
        h("span", { class: `rest state-${item.state}` }, `${sign} ${rest}`),
      ),
      h(
        "button",
        { type: "button", class: "icon", "aria-label": `Delete ${item.title}`, title: "Delete", click: () => this.#post({ type: "delete", taskId: item.taskId }) },
        icon("remove"),
      ),
    );
  }

  #close(): void {
    this.element.hidden = true;
    document.body.classList.remove("browsing");
    this.#leave();
  }
}
