// The top of the chat: what is worked on, how it stands, what it has used, and the to-do list.
import type { ChatContext } from "../chat/messages.ts";
import type { TaskId, Usage } from "../protocol.ts";
import { contextTokens, overallState, root, total, type Request } from "../state.ts";
import { cost, count, modelFacts, STATES } from "../words.ts";
import { h } from "./dom.ts";

const SIGNS = { pending: "○ to do: ", in_progress: "● now: ", completed: "✓ done: " };

/** The parts of a model request, as the server estimates them. */
const PARTS = [
  { key: "system", name: "System prompt" },
  { key: "tools", name: "Tools" },
  { key: "pinned", name: "Your messages" },
  { key: "files", name: "Files" },
  { key: "conversation", name: "Conversation" },
] as const;

/** The header, with what opens below it. */
export class Header {
  readonly #title = h("h1", { id: "title" });
  readonly #state = h("span", { class: "state" });
  readonly #mode = h("span", { class: "mode" });
  readonly #retry = h("span", { class: "retry" });
  readonly #fill = h("span", { class: "fill" });
  readonly #meter = h("span", { class: "meter", hidden: true, "aria-hidden": "true" }, this.#fill);
  readonly #used = h("span", { class: "cost" });
  readonly #usage = h("button", { id: "usage", type: "button", class: "link", "aria-expanded": "false", "aria-controls": "usage-parts", hidden: true }, this.#meter, this.#used);
  readonly #standing = h("div", { id: "standing" }, this.#state, this.#mode, this.#retry, this.#usage);
  readonly #parts = h("section", { id: "usage-parts", "aria-label": "Context and cost", tabindex: "0", hidden: true });
  readonly #todo = h("details", { id: "todo", hidden: true });
  readonly elements: readonly HTMLElement[] = [h("header", {}, this.#title, this.#standing), this.#parts, this.#todo];
  #request: Request | undefined;
  #context: ChatContext | undefined;
  #only: TaskId | undefined;

  constructor() {
    this.#usage.addEventListener("click", () => this.#open(this.#parts.hidden !== false));
    this.#parts.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.#open(false);
      this.#usage.focus();
    });
  }

  /** Shows how a request stands; the meter is that of the branch that alone is shown, or else of the root. */
  update(request: Request | undefined, context: ChatContext, only: TaskId | undefined): void {
    this.#request = request;
    this.#context = context;
    this.#only = only;
    const task = request && root(request);
    this.#title.textContent = task ? request?.title || "Task" : "New task";
    this.#standing.hidden = !task;
    if (request && task) this.#stand(request);
    if (!task) this.#open(false);
    this.#renderTodo();
    if (!this.#parts.hidden) this.#renderParts();
  }

  #stand(request: Request): void {
    const { sign, word } = STATES[overallState(request)];
    this.#state.className = `state state-${overallState(request)}`;
    this.#state.textContent = `${sign} ${word}`;
    const slug = root(request)?.mode ?? "";
    const known = this.#context?.modes.find((one) => one.slug === slug);
    this.#mode.textContent = known ? `${known.emoji} ${known.name}`.trim() : slug;
    const retry = Object.values(request.tasks).find((one) => one.retry !== undefined)?.retry;
    const condensing = Object.values(request.tasks).some((one) => one.isCondensing);
    this.#retry.hidden = retry === undefined && !condensing;
    this.#retry.textContent = retry ? `next request at ${new Date(retry.at).toLocaleTimeString()}` : condensing ? "shortens the context" : "";
    this.#retry.title = retry?.reason ?? "";

    const { tokens, costUsd } = total(request);
    const used = cost(tokens, costUsd);
    const { held, window } = this.#held();
    const share = window ? Math.min(1, held / window) : 0;
    this.#meter.hidden = !window || held === 0;
    this.#fill.style.width = `${Math.round(share * 100)}%`;
    this.#meter.classList.toggle("full", share > 0.8);
    this.#usage.hidden = used === "" && held === 0;
    this.#used.textContent = used;
    const context = window && held > 0 ? `context ${count(held)} of ${count(window)} tokens (${Math.round(share * 100)} %)` : "";
    this.#usage.title = ["Used", used, context].filter(Boolean).join(": ").replace(": context", "; context");
    this.#usage.setAttribute("aria-label", [`Used: ${used}`, context].filter(Boolean).join("; "));
  }

  /** What the newest request of the branch held, and what its model can hold. */
  #held(): { held: number; window: number | undefined; last: Usage | undefined } {
    const task = this.#request?.tasks[this.#only ?? this.#request.rootId];
    const usual = this.#context?.profiles.find((one) => one.isDefault)?.name ?? "";
    const window = task?.context?.window ?? this.#context?.models[task?.profile ?? usual]?.contextWindow ?? undefined;
    return { held: task?.context?.used ?? contextTokens(task?.lastRequest ?? {}), window, last: task?.lastRequest };
  }

  #open(open: boolean): void {
    this.#parts.hidden = !open;
    this.#usage.setAttribute("aria-expanded", String(open));
    if (open) this.#renderParts();
  }

  #renderParts(): void {
    const request = this.#request;
    if (!request) return;
    const { held, window, last } = this.#held();
    const task = request.tasks[this.#only ?? request.rootId];
    const profiles = this.#context?.profiles ?? [];
    const profile = profiles.find((one) => one.name === task?.profile) ?? profiles.find((one) => one.isDefault);
    const facts = profile ? this.#context?.models[profile.name] : undefined;
    const row = (name: string, value: string): HTMLElement[] => [h("dt", {}, name), h("dd", {}, value)];
    const tokens = (value: number | undefined): string => `${(value ?? 0).toLocaleString("en-US")} tokens`;
    const used = Object.values(request.tasks).reduce<Usage>((sum, one) => plus(sum, one.usage), {});
    this.#parts.replaceChildren(
      h("h2", {}, "Context of the newest model request"),
      last
        ? h(
            "dl",
            {},
            ...row("In all", window ? `${tokens(held)} of ${count(window)} (${Math.round((held / window) * 100)} %)` : tokens(held)),
            ...(task?.context ? PARTS.flatMap(({ key, name }) => row(name, tokens(task.context?.[key]))) : []),
            ...row("New input", tokens(last.tokensIn)),
            ...row("Read from the cache", tokens(last.cacheReads)),
            ...row("Written to the cache", tokens(last.cacheWrites)),
            ...row("Answer", tokens(last.tokensOut)),
          )
        : h("p", {}, "No request has been answered yet."),
      h("p", { class: "model" }, profile ? [profile.model ?? profile.name, facts && modelFacts(facts)].filter(Boolean).join(" · ") : ""),
      h("h2", {}, "The whole task"),
      h(
        "dl",
        {},
        ...row("Input", tokens(used.tokensIn)),
        ...row("From the cache", tokens(used.cacheReads)),
        ...row("To the cache", tokens(used.cacheWrites)),
        ...row("Output", tokens(used.tokensOut)),
        ...row("Cost", `$${(used.costUsd ?? 0).toFixed(4)}`),
      ),
      ...(request.nodes.length > 1
        ? [
            h("h2", {}, "By branch"),
            h("dl", {}, ...request.nodes.flatMap((node) => row(`${node.emoji} ${node.title}`, cost(node.tokens, node.costUsd) || "nothing yet"))),
          ]
        : []),
    );
  }

  #renderTodo(): void {
    const list = this.#request?.tasks[this.#only ?? this.#request.rootId]?.todo ?? [];
    this.#todo.hidden = list.length === 0;
    const shape = JSON.stringify(list);
    if (this.#todo.dataset["shape"] === shape) return;
    this.#todo.dataset["shape"] = shape;
    const done = list.filter((one) => one.status === "completed").length;
    const now = list.find((one) => one.status === "in_progress") ?? list.find((one) => one.status === "pending");
    this.#todo.replaceChildren(
      h("summary", {}, h("span", {}, `To do: ${done} of ${list.length}`), now && h("span", { class: "now" }, ` · ${now.content}`)),
      h("ul", {}, ...list.map((one) => h("li", { class: one.status }, SIGNS[one.status], one.content))),
    );
  }
}

function plus(one: Usage, other: Usage): Usage {
  const sum = (key: keyof Usage): number => (one[key] ?? 0) + (other[key] ?? 0);
  return { tokensIn: sum("tokensIn"), tokensOut: sum("tokensOut"), cacheReads: sum("cacheReads"), cacheWrites: sum("cacheWrites"), costUsd: sum("costUsd") };
}
