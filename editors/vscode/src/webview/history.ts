// The list of earlier requests.
import type { FromPage } from "../chat/messages.ts";
import type { HistoryItem } from "../protocol.ts";
import { h } from "./dom.ts";
import { cost, STATES, when } from "../words.ts";

/** The panel with the history. */
export class History {
  readonly element = h("nav", { id: "history", "aria-label": "History", hidden: true });
  readonly #post: (message: FromPage) => void;

  constructor(post: (message: FromPage) => void) {
    this.#post = post;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
  }

  /** Opens or closes it. */
  toggle(): void {
    if (!this.element.hidden) return this.#close();
    this.#post({ type: "history", more: false });
  }

  /** Shows these requests. */
  show(items: readonly HistoryItem[], more: boolean): void {
    const now = Date.now();
    this.element.replaceChildren(
      h("h2", {}, "History"),
      ...(items.length === 0 ? [h("p", {}, "There is no earlier request.")] : []),
      h(
        "ul",
        {},
        ...items.map((item) => {
          const used = (item.usage.tokensIn ?? 0) + (item.usage.tokensOut ?? 0);
          const { sign, word } = STATES[item.state];
          const rest = [word, item.mode, when(item.updatedAt, now), cost(used, item.usage.costUsd ?? 0)].filter(Boolean).join(" · ");
          const open = (): void => {
            this.#post({ type: "open", taskId: item.taskId });
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
              { type: "button", class: "quiet", "aria-label": `Delete ${item.title}`, click: () => this.#post({ type: "delete", taskId: item.taskId }) },
              "Delete",
            ),
          );
        }),
      ),
      ...(more ? [h("button", { type: "button", click: () => this.#post({ type: "history", more: true }) }, "Show more")] : []),
    );
    const opened = this.element.hidden;
    this.element.hidden = false;
    this.#button()?.setAttribute("aria-expanded", "true");
    if (opened) this.element.querySelector("button")?.focus();
  }

  #close(): void {
    this.element.hidden = true;
    const button = this.#button();
    button?.setAttribute("aria-expanded", "false");
    button?.focus();
  }

  #button(): HTMLElement | null {
    return document.getElementById("history-button");
  }
}
