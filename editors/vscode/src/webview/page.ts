// The chat's page: what is known of a request as elements, and what the user does as messages.
import type { FromPage, ChatContext, ToPage } from "../chat/messages.ts";
import type { PendingApproval, TaskId } from "../protocol.ts";
import { apply, overallState, root, total, waiting, type Item, type Request, type Waiting } from "../state.ts";
import { Announcer } from "./announcer.ts";
import { Composer } from "./composer.ts";
import { h, KeyedList } from "./dom.ts";
import { renderItem } from "./feed.ts";
import { History } from "./history.ts";
import { approvalCard, questionCard } from "./cards.ts";
import { cost, isSpokenFor, STATES } from "../words.ts";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): unknown;
  setState(state: unknown): void;
};

const api = acquireVsCodeApi();
const post = (message: FromPage): void => api.postMessage(message);

let request: Request | undefined;
/** The branch that alone is shown. */
let only: TaskId | undefined;
let context: ChatContext = {
  problem: undefined,
  modes: [],
  profiles: [],
  commands: [],
  defaultMode: "",
  places: [],
  untrusted: [],
};

const announcer = new Announcer();
const title = h("h1", { id: "title" });
const standing = h("p", { id: "standing" });
const degraded = h("p", { id: "degraded", role: "alert", hidden: true });
const problem = h("p", { id: "problem", role: "alert", hidden: true });
const trust = h("div", { id: "trust", hidden: true });
const filter = h("div", { id: "filter", hidden: true });
const welcome = h("div", { id: "welcome" });
const conversation = h("div", {});
const feed = h("div", { id: "feed", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: "0" }, conversation);
const cards = h("section", { id: "waiting", "aria-label": "Waiting for you" });
const todo = h("details", { id: "todo", hidden: true });
const queue = h("section", { id: "queue", "aria-label": "Queued messages", hidden: true });
const composer = new Composer(post, api, announcer);
const history = new History(post, () => composer.focus());

document.body.append(
  h(
    "header",
    {},
    title,
    standing,
  ),
  history.element,
  problem,
  degraded,
  trust,
  filter,
  h("main", { "aria-label": "Task" }, welcome, feed),
  todo,
  cards,
  queue,
  composer.element,
  announcer.element,
);

const items = new KeyedList<Item>(
  conversation,
  (item) => item.key,
  (item, before) => renderItem(item, { request, heading: headings.get(item.key) ?? false, before }),
);
const waitingCards = new KeyedList<Waiting>(
  cards,
  (one) => one.approval?.approvalId ?? one.question?.questionId ?? "",
  (one, before) => before ?? card(one),
);
/** Before which items the branch is named. */
let headings = new Map<string, boolean>();

function card(one: Waiting): HTMLElement {
  const branch = branchName(one.task.id);
  if (one.approval) {
    const approval: PendingApproval = one.approval;
    return approvalCard(approval, branch, post);
  }
  if (one.question) return questionCard(one.question, branch, context.modes, post);
  return h("div");
}

/** The name of a branch; none for the root, which needs none. */
function branchName(taskId: TaskId): string | undefined {
  if (taskId === request?.rootId) return undefined;
  const node = request?.nodes.find((one) => one.id === taskId);
  return node ? `${node.emoji} ${node.title}` : (request?.tasks[taskId]?.title ?? taskId);
}

/** Whether the newest is in sight; then it stays so, whatever grows or shrinks. */
let following = true;
const follow = (): void => {
  if (following) feed.scrollTop = feed.scrollHeight;
};
feed.addEventListener("scroll", () => {
  following = feed.scrollHeight - feed.scrollTop - feed.clientHeight < 40;
});
const sizes = new ResizeObserver(follow);
sizes.observe(feed);
sizes.observe(conversation);

let frame = 0;
function changed(): void {
  if (frame === 0) {
    frame = requestAnimationFrame(() => {
      frame = 0;
      render();
    });
  }
}

function render(): void {
  const task = request && root(request);
  const known = request !== undefined && task !== undefined;

  title.textContent = known ? request?.title || "Task" : "New task";
  standing.replaceChildren(...(known && request ? standingOf(request) : []));
  welcome.hidden = known;
  feed.hidden = !known;

  const shown = (request?.feed ?? []).filter((item) => (only === undefined || item.taskId === only) && !isSpokenFor(item));
  const branches = Object.keys(request?.tasks ?? {}).length > 1;
  headings = new Map(shown.map((item, index) => [item.key, branches && item.taskId !== shown[index - 1]?.taskId]));
  items.update(shown, (index) => {
    const item = shown[index];
    if (!item) return "";
    return headings.get(item.key) ? (branchName(item.taskId) ?? "root") : "";
  });

  const asking = request ? waiting(request) : [];
  const focused = cards.contains(document.activeElement);
  waitingCards.update(asking, (index) => asking[index]?.task.id ?? "");
  cards.hidden = asking.length === 0;
  // The card with the focus was answered; the next one, or else the composer, has it now.
  if (focused && !cards.contains(document.activeElement)) {
    const next = cards.querySelector<HTMLElement>("button");
    if (next) next.focus();
    else composer.focus();
  }

  degraded.hidden = request?.degraded === undefined;
  if (degraded.textContent !== (request?.degraded ?? "")) degraded.textContent = request?.degraded ?? "";
  renderTodo();
  renderQueue();
  renderFilter();
  composer.update(request, context);
  follow();
}

function standingOf(of: Request): (Node | string)[] {
  const state = overallState(of);
  const { sign, word } = STATES[state];
  const { tokens, costUsd } = total(of);
  const used = cost(tokens, costUsd);
  const slug = root(of)?.mode ?? "";
  const known = context.modes.find((one) => one.slug === slug);
  const mode = known ? `${known.emoji} ${known.name}`.trim() : slug;
  return [
    h("span", { class: `state state-${state}` }, `${sign} ${word}`),
    h("span", { class: "mode" }, mode),
    ...Object.values(of.tasks)
      .filter((task) => task.retry !== undefined)
      .map((task) => h("span", { class: "retry" }, `tries again at ${new Date(task.retry?.at ?? 0).toLocaleTimeString()}: ${task.retry?.reason}`)),
    h("span", { class: "cost", "aria-label": used ? `Used: ${used}` : undefined }, used),
  ];
}

function renderTodo(): void {
  const task = only === undefined ? request && root(request) : request?.tasks[only];
  const list = task?.todo ?? [];
  todo.hidden = list.length === 0;
  const done = list.filter((one) => one.status === "completed").length;
  const signs = { pending: "○ to do: ", in_progress: "● now: ", completed: "✓ done: " };
  todo.replaceChildren(
    h("summary", {}, `To do: ${done} of ${list.length}`),
    h("ul", {}, ...list.map((one) => h("li", { class: one.status }, signs[one.status], one.content))),
  );
}

let queued: unknown;
function renderQueue(): void {
  const waits = Object.values(request?.tasks ?? {}).flatMap((task) => task.queue.map((item) => ({ task, item })));
  const shape = JSON.stringify(waits.map(({ task, item }) => [task.id, item.id, item.text]));
  // An item that is being edited keeps its text and the focus.
  if (shape === queued) return;
  queued = shape;
  queue.hidden = waits.length === 0;
  queue.replaceChildren(
    h("h2", {}, "Queued messages"),
    h(
      "ul",
      {},
      ...waits.map(({ task, item }) => {
        const input = h("input", { type: "text", value: item.text, "aria-label": "Queued message" });
        const save = (): void => post({ type: "editQueued", taskId: task.id, itemId: item.id, text: input.value });
        input.addEventListener("keydown", (event) => {
          if (event.key === "Enter" && !event.isComposing) save();
        });
        return h(
          "li",
          {},
          input,
          h("button", { type: "button", click: save }, "Save"),
          h("button", { type: "button", click: () => post({ type: "deleteQueued", taskId: task.id, itemId: item.id }) }, "Remove"),
        );
      }),
    ),
  );
}

function renderFilter(): void {
  filter.hidden = only === undefined;
  if (only === undefined) return;
  filter.replaceChildren(
    h("span", {}, `Only ${branchName(only) ?? "the request's own task"}`),
    h("button", { type: "button", click: () => post({ type: "all" }) }, "Show all"),
  );
}

function renderContext(): void {
  problem.hidden = context.problem === undefined;
  problem.textContent = context.problem ?? "";
  trust.hidden = context.untrusted.length === 0;
  trust.replaceChildren(
    h("p", {}, `This workspace contains ${context.untrusted.join(", ")}. These have no effect until you trust it.`),
    h("button", { type: "button", click: () => post({ type: "trust" }) }, "Look at it…"),
  );
  welcome.replaceChildren(
    h("p", {}, "Say what you want below. A team of agents works on it and asks before it writes or runs anything."),
    h("p", {}, "Point at files with @, use a command with /. Select lines in an editor and choose “New Task from Selection” to start from them."),
  );
}

window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  const message = event.data;
  switch (message.type) {
    case "state":
      request = message.request;
      only = message.only;
      following = true;
      break;
    case "event":
      if (!request) return;
      request = apply(request, message.params).request;
      announcer.event(message.params, branchName(message.params.taskId));
      break;
    case "context":
      context = message.context;
      renderContext();
      break;
    case "history":
      history.show(message.items, message.more);
      return;
    case "files":
      composer.files(message.query, message.paths);
      return;
    case "focus":
      composer.focus(message.text);
      return;
    case "taken":
      composer.taken();
      return;
    case "failed":
      composer.failed(message.what);
      announcer.say(message.message);
      return;
  }
  changed();
});

// Links are opened by the extension, if they may be.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest<HTMLElement>("a[data-href]") : undefined;
  if (!link) return;
  event.preventDefault();
  post({ type: "link", href: link.dataset["href"] ?? "" });
});

renderContext();
render();
post({ type: "ready" });
