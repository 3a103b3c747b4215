// The conversation: each item as an element.
import type { CallItem, Item, MessageItem, NoteItem, Request } from "../state.ts";
import { diff } from "./diff.ts";
import { h } from "./dom.ts";
import { image } from "./images.ts";
import { toHtml } from "./markdown.ts";
import { describe, isDiff, STATES, STATUSES } from "../words.ts";

/** What an item's element depends on besides the item. */
export interface ItemContext {
  readonly request: Request | undefined;
  /** Whether its branch is named above it. */
  readonly heading: boolean;
  /** The element of an earlier version. */
  readonly before: HTMLElement | undefined;
}

/** An item. */
export function renderItem(item: Item, { request, heading, before }: ItemContext): HTMLElement {
  const body = item.kind === "message" ? message(item) : item.kind === "call" ? call(item, before) : note(item);
  return h(
    "div",
    { class: `item ${item.kind}`, "data-key": item.key, "data-at": item.at, "data-depth": Math.min(depth(request, item), 6) },
    heading && branch(request, item),
    body,
  );
}

function depth(request: Request | undefined, item: Item): number {
  let steps = 0;
  for (let task = request?.tasks[item.taskId]; task?.parentId; task = request?.tasks[task.parentId]) steps += 1;
  return steps;
}

function branch(request: Request | undefined, item: Item): HTMLElement {
  const node = request?.nodes.find((one) => one.id === item.taskId);
  const task = request?.tasks[item.taskId];
  return h("h2", { class: "branch" }, node ? `${node.emoji} ${node.title}` : (task?.title ?? item.taskId));
}

const SPEAKERS: Partial<Record<MessageItem["say"], string>> = {
  user_feedback: "You",
  error: "Error",
  completion_result: "Result",
  command_output: "Output",
};

function message(item: MessageItem): HTMLElement {
  // The first message of a task is its request: the user's, or the brief of whoever delegated it.
  const asked = item.say === "text" && /\/m\d+$/.test(item.key);
  if (item.say === "reasoning") {
    return h("details", { class: "reasoning" }, h("summary", {}, item.streaming ? "Thinking…" : "Thoughts"), markdown(item.text));
  }
  const speaker = asked ? "Request" : SPEAKERS[item.say];
  return h(
    "div",
    { class: `said ${asked ? "user_feedback" : item.say}${item.streaming ? " streaming" : ""}` },
    speaker !== undefined && h("span", { class: "speaker" }, speaker),
    item.say === "command_output" ? h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, item.text) : markdown(item.text),
    ...item.images.map((url, index) => image(url, `Image ${index + 1}`)),
  );
}

function markdown(text: string): HTMLElement {
  const element = h("div", { class: "markdown" });
  element.innerHTML = toHtml(text);
  return element;
}

function call(item: CallItem, before: HTMLElement | undefined): HTMLElement {
  const { doing, subject } = describe(item);
  const pending = item.approvals.some((asked) => asked.answer === undefined) && item.status === undefined;
  const state = item.status
    ? STATUSES[item.status]
    : pending
      ? { sign: "?", word: "asks for permission" }
      : item.running
        ? { sign: "●", word: "running" }
        : item.streaming
          ? { sign: "…", word: "being written" }
          : { sign: "○", word: "to come" };
  const asked = item.approvals.at(-1);
  const details: HTMLElement[] = [];
  if (asked && isDiff(asked.subject)) details.push(diff(asked.subject));
  if (item.output) details.push(h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, item.output));
  for (const { answer, title } of item.approvals) {
    if (answer?.name !== undefined) details.push(h("p", { class: "answer" }, `${title}: ${answer.name} (${answer.by})`));
  }
  const delegated = item.running?.name === "new_task" ? item.running.subject : undefined;
  const on = delegated ?? subject;
  const line = [
    h("span", { class: "sign", "aria-hidden": "true" }, state.sign),
    h("span", { class: "doing" }, delegated === undefined ? doing : "Delegate"),
    " ",
    on && h("code", { class: "subject" }, on),
    h("span", { class: "outcome" }, outcome(item, state.word)),
  ];
  const kind = `tool ${item.status ?? (pending ? "pending" : "open")}`;
  if (details.length === 0) return h("div", { class: kind }, ...line);
  // What the user has opened or closed stays so.
  const was = before?.querySelector("details");
  const open = was ? was.open : item.running !== undefined && item.status === undefined;
  return h("details", { class: kind, open }, h("summary", {}, ...line), ...details);
}

function outcome(item: CallItem, word: string): string {
  const summary = item.summary.split("\n")[0] ?? "";
  return item.status !== undefined && summary ? `${word}: ${summary}` : word;
}

function note(item: NoteItem): HTMLElement {
  if (item.tone === "question") {
    return h("div", { class: "said question" }, h("span", { class: "speaker" }, "Question"), markdown(item.text));
  }
  const sign = item.tone === "bad" ? STATES.failed.sign : item.tone === "good" ? STATES.completed.sign : "·";
  return h("p", { class: `note ${item.tone}` }, `${sign} ${item.text}`);
}
