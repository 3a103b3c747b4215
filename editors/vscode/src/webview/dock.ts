// What waits for the user, one card at a time: the others follow by themselves as soon as one is answered.
import { h } from "./dom.ts";
import { icon } from "./icons.ts";
import type { Waiting } from "../state.ts";

/** The id of what waits. */
export function idOf(one: Waiting): string {
  return one.approval?.approvalId ?? one.question?.questionId ?? "";
}

interface Shown {
  readonly value: Waiting;
  readonly element: HTMLElement;
}

/** The place between the conversation and the composer. */
export class Dock {
  readonly #card: (one: Waiting) => HTMLElement;
  readonly #changed: (current: Waiting | undefined) => void;
  readonly #place = h("span", { class: "place" });
  readonly #previous = h("button", { type: "button", class: "icon", "aria-label": "Previous", title: "Previous (Alt+Up)" }, icon("previous"));
  readonly #next = h("button", { type: "button", class: "icon", "aria-label": "Next", title: "Next (Alt+Down)" }, icon("next"));
  readonly #stack = h("div", { class: "stack", hidden: true }, this.#place, this.#previous, this.#next);
  readonly element = h("section", { id: "waiting", "aria-label": "Waiting for you", hidden: true }, this.#stack);
  /** Cards keep what was typed into them while another one is shown. */
  #cards = new Map<string, Shown>();
  #order: readonly string[] = [];
  #current: string | undefined;

  /** `changed` is told which one is in front. */
  constructor(card: (one: Waiting) => HTMLElement, changed: (current: Waiting | undefined) => void) {
    this.#card = card;
    this.#changed = changed;
    this.#previous.addEventListener("click", () => this.move(-1));
    this.#next.addEventListener("click", () => this.move(1));
  }

  /** What is in front. */
  get current(): Waiting | undefined {
    return this.#current === undefined ? undefined : this.#cards.get(this.#current)?.value;
  }

  /** The card of what waits. */
  card(id: string): HTMLElement | undefined {
    return this.#cards.get(id)?.element;
  }

  /** Shows what waits. The one in front stays there; when it is answered, the one behind it takes its place. */
  update(waiting: readonly Waiting[]): void {
    const before = this.#current;
    const element = before === undefined ? undefined : this.card(before);
    const place = before === undefined ? 0 : this.#order.indexOf(before);
    const cards = new Map<string, Shown>();
    for (const one of waiting) {
      const id = idOf(one);
      const old = this.#cards.get(id);
      // What is asked again after an interruption is the same, and keeps what was typed into its card.
      const same = old !== undefined && old.value.approval?.digest === one.approval?.digest;
      cards.set(id, { value: one, element: same ? old.element : this.#card(one) });
    }
    this.#cards = cards;
    this.#order = [...cards.keys()];
    this.#current = before !== undefined && cards.has(before) ? before : this.#order[Math.min(Math.max(place, 0), this.#order.length - 1)];
    // A click that was meant for the card before must not meet this one.
    this.#draw(before !== undefined && before !== this.#current);
    if (this.#current === undefined ? before !== undefined : this.card(this.#current) !== element) this.#changed(this.current);
  }

  /** Shows the one behind, or the one before. */
  move(by: number): void {
    if (this.#order.length < 2 || this.#current === undefined) return;
    const focused = this.element.contains(document.activeElement) && !this.#stack.contains(document.activeElement);
    const count = this.#order.length;
    this.#current = this.#order[(this.#order.indexOf(this.#current) + by + count) % count];
    this.#draw(false);
    this.#changed(this.current);
    if (focused) this.focus();
  }

  /** Brings what waits to the front. */
  bring(id: string): void {
    if (!this.#cards.has(id) || id === this.#current) return;
    this.#current = id;
    this.#draw(false);
    this.#changed(this.current);
  }

  /** Gives the card the focus, and none of its answers. */
  focus(): void {
    this.element.querySelector<HTMLElement>(".card")?.focus();
  }

  #draw(replaced: boolean): void {
    const count = this.#order.length;
    this.element.hidden = count === 0;
    this.#stack.hidden = count < 2;
    this.#place.textContent = `${this.#order.indexOf(this.#current ?? "") + 1} of ${count}`;
    const element = this.#current === undefined ? undefined : this.#cards.get(this.#current)?.element;
    const shown = this.element.querySelector(".card");
    if (shown === (element ?? null)) return;
    shown?.remove();
    if (!element) return;
    element.classList.toggle("fresh", replaced);
    this.element.append(element);
    show(element);
  }
}

/** Brings the first changed line into view, with a line before it where there is room. */
function show(card: HTMLElement): void {
  const body = card.querySelector<HTMLElement>(".subject");
  const changed = card.querySelector<HTMLElement>(".added, .removed");
  if (!body || !changed) return;
  const [line, view] = [changed.getBoundingClientRect(), body.getBoundingClientRect()];
  if (line.bottom <= view.bottom) return;
  body.scrollTop += line.top - view.top - Math.max(0, Math.min(line.height, view.height - line.height));
}
