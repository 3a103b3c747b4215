// The chat's page: what is known of a request as elements, and what the user does as messages.
import type { FromPage, ChatContext, ToPage } from "../chat/messages.ts";
import type { TaskId } from "../protocol.ts";
import { apply, root, waiting, type Item, type Request, type Waiting } from "../state.ts";
import { Announcer } from "./announcer.ts";
import { Composer } from "./composer.ts";
import { h, KeyedList } from "./dom.ts";
import { renderItem } from "./feed.ts";
import { Dock } from "./dock.ts";
import { Header } from "./header.ts";
import { tellFocus } from "./focus.ts";
import { History } from "./history.ts";
import { showDecided, showHunks } from "./hunks.ts";
import { icon } from "./icons.ts";
import { actOnCode } from "./markdown.ts";
import { approvalCard, questionCard } from "./cards.ts";
import { shortcut } from "./shortcut.ts";
import { isSpokenFor } from "../words.ts";

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
  defaultProfile: undefined,
  models: {},
  autoApprove: undefined,
  restartPending: false,
  places: [],
  canRestore: false,
  canEdit: false,
  untrusted: [],
};

const announcer = new Announcer();
const header = new Header();
const degraded = h("p", { id: "degraded", role: "alert", hidden: true });
const problem = h("p", { id: "problem", role: "alert", hidden: true });
const trust = h("section", { id: "trust", "aria-label": "Trust", hidden: true });
const filter = h("section", { id: "filter", "aria-label": "Branch", hidden: true });
const restart = h(
  "section",
  { id: "restart", "aria-label": "Changed settings", hidden: true },
  h("p", {}, "Changed settings and folders take effect when the running task stops."),
  h("button", { type: "button", class: "secondary", click: () => post({ type: "restart" }) }, "Restart now"),
);
const welcome = h("div", { id: "welcome" });
const conversation = h("div", {});
const feed = h("div", { id: "feed", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: "0" }, conversation);
const latest = h("button", { id: "latest", type: "button", class: "secondary icon", title: "Go to the newest", hidden: true }, icon("down"), h("span", { class: "unseen" }, "Go to the newest"));
const queue = h("section", { id: "queue", "aria-label": "Queued messages", hidden: true });
const composer = new Composer(post, api, announcer);
const history = new History(post, () => composer.focus());
const dock = new Dock(card, (current) => {
  post({ type: "inFront", approvalId: current?.approval?.approvalId });
  composer.update(request, context, current?.question);
});

document.body.append(
  history.element,
  ...header.elements,
  problem,
  degraded,
  restart,
  trust,
  filter,
  h("main", { "aria-label": "Task" }, welcome, feed, latest),
  dock.element,
  queue,
  composer.element,
  announcer.element,
);

const items = new KeyedList<Item>(
  conversation,
  (item) => item.key,
  (item, before) => renderItem(item, { request, heading: headings.get(item.key) ?? false, before, post }),
);
/** Before which items the branch is named. */
let headings = new Map<string, boolean>();

/** A change that is to be rewritten as soon as its card has it. */
let toEdit: { readonly approvalId: string; readonly hunkId: string } | undefined;
function editHunk(): void {
  const edit = toEdit && dock.card(toEdit.approvalId)?.querySelector<HTMLElement>(`[data-hunk="${toEdit.hunkId}"] [data-toggle="edit"]`);
  if (!edit) return;
  toEdit = undefined;
  if (edit.getAttribute("aria-pressed") !== "true") edit.click();
  const field = edit.closest("[data-hunk]")?.querySelector("textarea");
  field?.focus();
  field?.scrollIntoView({ block: "nearest" });
}

/** What each approval was about when its card was drawn last. */
const digests = new Map<string, string>();

function card(one: Waiting): HTMLElement {
  const branch = branchName(one.task.id);
  if (one.approval) {
    // What was decided about something else doesn't count for this.
    const { approvalId, digest } = one.approval;
    if ((digests.get(approvalId) ?? digest) !== digest) post({ type: "hunks", approvalId, answers: [] });
    digests.set(approvalId, digest);
    return approvalCard(one.approval, branch, post);
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
  latest.hidden = following || feed.hidden;
});
latest.addEventListener("click", () => {
  following = true;
  follow();
  // A button that vanishes must not take the focus with it.
  feed.focus();
  latest.hidden = true;
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

  header.update(request, context, only);
  welcome.hidden = known;
  feed.hidden = !known;

  const asking = request ? waiting(request) : [];
  const open = new Set(asking.map((one) => one.question?.questionId));
  // A question that waits stands in its card.
  const isAsked = (item: Item): boolean => item.kind === "note" && item.questionId !== undefined && open.has(item.questionId);
  const shown = (request?.feed ?? []).filter((item) => (only === undefined || item.taskId === only) && !isSpokenFor(item) && !isAsked(item));
  const branches = Object.keys(request?.tasks ?? {}).length > 1;
  headings = new Map(shown.map((item, index) => [item.key, branches && item.taskId !== shown[index - 1]?.taskId]));
  items.update(shown, (index) => {
    const item = shown[index];
    if (!item) return "";
    return headings.get(item.key) ? (branchName(item.taskId) ?? "root") : "";
  });

  const focused = dock.element.contains(document.activeElement);
  document.body.classList.toggle("asking", asking.length > 0);
  dock.update(asking);
  // The card with the focus was answered; the next one, or else the composer, has it now.
  if (focused && !dock.element.contains(document.activeElement)) {
    if (dock.current) dock.focus();
    else composer.focus();
  }

  const warnings = (request?.warnings ?? []).map(({ reason }) => reason).join("\n");
  degraded.hidden = warnings === "";
  if (degraded.textContent !== warnings) degraded.textContent = warnings;
  renderQueue();
  renderFilter();
  composer.update(request, context, dock.current?.question);
  follow();
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
  restart.hidden = !context.restartPending;
  document.body.classList.toggle("restorable", context.canRestore);
  document.body.classList.toggle("editable", context.canEdit);
  trust.hidden = context.untrusted.length === 0;
  trust.replaceChildren(
    h("p", {}, `This workspace contains ${context.untrusted.join(", ")}. These have no effect until you trust it.`),
    h("button", { type: "button", click: () => post({ type: "trust" }) }, "Look at it…"),
  );
  // Nothing is known while the server is starting.
  const ready = context.problem === undefined;
  const hasModel = !ready || context.profiles.some((one) => one.isDefault);
  welcome.replaceChildren(
    ...(hasModel ? [] : [modelMissing()]),
    h("h2", {}, "What can Roo do for you?"),
    h("p", {}, "Describe a task below. A team of agents works on it and asks before it changes or runs anything."),
    h(
      "ul",
      { class: "hints" },
      hint("@", "names a file, @problems or @git-changes"),
      hint("/", "starts a command"),
      hint("Ctrl+K N", "starts a task from what is selected in the editor", "in-editor"),
      hint("Ctrl+Shift+Enter", "allows what is asked"),
      hint("Ctrl+Shift+Backspace", "denies it"),
    ),
  );
}

function hint(key: string, text: string, kind?: string): HTMLElement {
  return h("li", { class: kind }, h("kbd", {}, shortcut(key)), ` ${text}`);
}

/** Said in place, as nothing can be started without one. */
function modelMissing(): HTMLElement {
  return h(
    "section",
    { id: "no-model", "aria-label": "Set up a model" },
    h("h2", {}, "No model is set up yet"),
    h("p", {}, "Choose a provider, enter its key and pick a model. One short request checks that it answers before anything is saved."),
    h("button", { type: "button", class: "primary", click: () => post({ type: "setUp" }) }, "Set up a model"),
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
      render();
      return;
    case "history":
      history.show(message.items, message.more, message.appended);
      return;
    case "move":
      dock.move(message.by);
      dock.focus();
      return;
    case "decide":
      if (dock.current?.approval?.approvalId === message.approvalId) dock.card(message.approvalId)?.querySelector<HTMLElement>(`footer > .buttons [data-option="${message.kind}"]`)?.click();
      return;
    case "hunks": {
      const card = dock.card(message.approvalId);
      if (card) showHunks(card, message.approvalId, message.files, message.answers, post);
      editHunk();
      return;
    }
    case "editHunk":
      dock.bring(message.approvalId);
      toEdit = message;
      editHunk();
      return;
    case "decided": {
      const card = dock.card(message.approvalId);
      if (card) showDecided(card, message.answers);
      return;
    }
    case "completions":
      composer.complete(message.prompt, message.completions);
      return;
    case "keys":
      document.body.toggleAttribute("data-keys", message.on);
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
  const code = event.target instanceof Element ? actOnCode(event.target) : undefined;
  if (code) post(code.action === "copy" ? { type: "copy", text: code.code } : { type: "insert", text: code.code, language: code.language });
  const link = event.target instanceof Element ? event.target.closest<HTMLElement>("a[data-href]") : undefined;
  if (!link) return;
  event.preventDefault();
  post({ type: "link", href: link.dataset["href"] ?? "" });
});

renderContext();
render();
post({ type: "ready" });
tellFocus(post);
