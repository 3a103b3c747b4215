// The list of earlier requests.
import type { FromPage } from "../chat/messages.ts";
import type { HistoryItem } from "../protocol.ts";
import { h } from "./dom.ts";
import { cost, STATES, when } from "../words.ts";

/** The panel with the history. */
export class History {
  readonly element = h("nav", { id: "history", "aria-label": "History", hidden: true });
  readonly #post: (message: FromPage) => void;
  readonly #leave: () => void;

  /** `leave` takes the focus when it closes. */
  constructor(post: (message: FromPage) => void, leave: () => void) {
    this.#post = post;
    this.#leave = leave;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
  }

  /** Shows these requests. */
  show(items: readonly HistoryItem[], more: boolean): void {
    const now = Date.now();
    this.element.replaceChildren(
      h("div", { class: "top" }, h("h2", {}, "History"), h("button", { type: "button", class: "quiet", click: () => this.#close() }, "Close")),
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
    this.element.hidden = false;
    (this.element.querySelector<HTMLElement>(".entry") ?? this.element.querySelector("button"))?.focus();
  }

  #close(): void {
    this.element.hidden = true;
    this.#leave();
  }
}
