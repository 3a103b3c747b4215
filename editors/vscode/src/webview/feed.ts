// The conversation: each item as an element.
import type { FromPage } from "../chat/messages.ts";
import type { Answer, CallItem, Item, MessageItem, NoteItem, Request } from "../state.ts";
import { diff } from "./diff.ts";
import { h } from "./dom.ts";
import { icon } from "./icons.ts";
import { image } from "./images.ts";
import { fileLink, toHtml } from "./markdown.ts";
import { describe, endOf, isDiff, STATES } from "../words.ts";

/** What an item's element depends on besides the item. */
export interface ItemContext {
  readonly request: Request | undefined;
  /** Whether its branch is named above it. */
  readonly heading: boolean;
  /** The element of an earlier version. */
  readonly before: HTMLElement | undefined;
  readonly post: (message: FromPage) => void;
}

/** An item. */
export function renderItem(item: Item, { request, heading, before, post }: ItemContext): HTMLElement {
  const body = item.kind === "message" ? message(item, item.taskId === request?.rootId, post) : item.kind === "call" ? call(item, before) : note(item, post);
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

/** `isOwn` says whether its task is the request itself, and no branch of it. */
function message(item: MessageItem, isOwn: boolean, post: (message: FromPage) => void): HTMLElement {
  // The first message of a task is its request: the user's, or the brief of whoever delegated it.
  const asked = item.say === "text" && /\/m\d+$/.test(item.key);
  if (item.say === "reasoning") {
    return h("details", { class: "reasoning" }, h("summary", {}, item.streaming ? "Thinking…" : "Thoughts"), markdown(item.text));
  }
  const { taskId, seq } = item;
  const speaker = asked ? "Request" : SPEAKERS[item.say];
  const isUsers = seq !== undefined && (asked || item.say === "user_feedback");
  const element = h(
    "div",
    { class: `said ${asked ? "user_feedback" : item.say}${item.streaming ? " streaming" : ""}` },
    speaker !== undefined && h("span", { class: "speaker" }, speaker),
    !item.streaming &&
      item.text !== "" &&
      h("button", { type: "button", class: "icon copy", "aria-label": "Copy the message", title: "Copy", click: () => post({ type: "copy", text: item.text }) }, icon("copy")),
    // What the user said is where one goes back to.
    isUsers &&
      h("button", { type: "button", class: "icon restore", "aria-label": "Restore…", title: "Restore what there was before this message…", click: () => post({ type: "restore", taskId, seq }) }, icon("restore")),
    item.say === "command_output" ? h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, item.text) : markdown(item.text),
    ...item.images.map((url, index) => image(url, `Image ${index + 1}`)),
  );
  if (isUsers && isOwn) makeEditable(element, item, post);
  return element;
}

/** Adds a button that lets the user rewrite the message. What was written stays for the next time. */
function makeEditable(element: HTMLElement, item: MessageItem, post: (message: FromPage) => void): void {
  const { taskId, text, images } = item;
  const field = h("textarea", { rows: 4, "aria-label": "Changed message" });
  field.value = text;
  const open = h("button", { type: "button", class: "icon edit", "aria-label": "Edit…", title: "Change this message, and go on from there…", click: () => show(true) }, icon("edit"));
  const goOn = (): void => {
    if (!field.value.trim() || field.value === text) return;
    show(false);
    post({ type: "edit", taskId, messageId: item.key.slice(taskId.length + 1), text: field.value, images });
  };
  const form = h(
    "div",
    { class: "rewrite", hidden: true },
    field,
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", class: "primary", "data-rewrite": "goOn", click: goOn }, "Go on from here…"),
      h("button", { type: "button", class: "secondary", click: () => show(false) }, "Back"),
    ),
  );
  const show = (on: boolean): void => {
    form.hidden = !on;
    element.classList.toggle("rewritten", on);
    (on ? field : open).focus();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(false);
  });
  element.querySelector(".copy")?.after(open);
  element.append(form);
}

function markdown(text: string): HTMLElement {
  const element = h("div", { class: "markdown" });
  element.innerHTML = toHtml(text);
  return element;
}

function call(item: CallItem, before: HTMLElement | undefined): HTMLElement {
  const { doing, subject } = describe(item);
  const pending = item.approvals.some((asked) => asked.answer === undefined) && item.status === undefined;
  const end = item.status && endOf(item.status, item.exitCode);
  const state = end
    ? end
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
  const { text, base } = item.output;
  if (text) details.push(h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, base > 0 ? `… earlier output left out\n${text}` : text));
  for (const [index, url] of item.images.entries()) {
    const picture = image(url, `Picture ${index + 1}`);
    if (picture) details.push(picture);
  }
  for (const { answer, title } of item.approvals) {
    if (answer !== undefined) details.push(h("p", { class: "answer" }, `${title}: ${inWords(answer)}`));
  }
  const delegated = item.running?.name === "new_task" ? item.running.subject : undefined;
  const on = delegated ?? subject;
  const line = [
    h("span", { class: "sign", "aria-hidden": "true" }, state.sign),
    h("span", { class: "doing" }, delegated === undefined ? doing : "Delegate"),
    " ",
    on && (details.length === 0 ? subjectOf(on) : h("code", { class: "subject" }, on)),
    h("span", { class: "outcome" }, outcome(item, state.word)),
  ];
  const kind = `tool ${end?.kind ?? (pending ? "pending" : "open")}`;
  if (details.length === 0) return h("div", { class: kind }, ...line);
  // A summary is a button; what can be opened stands below it.
  const href = on === undefined ? undefined : fileLink(on);
  if (href !== undefined) details.unshift(h("p", { class: "answer" }, h("a", { href: "#", "data-href": href }, `Open ${on}`)));
  // What the user has opened or closed stays so.
  const was = before?.querySelector("details");
  const open = was?.open ?? (item.images.length > 0 || (item.running !== undefined && item.status === undefined));
  return h("details", { class: kind, open }, h("summary", {}, ...line), ...details);
}

function inWords(answer: Answer): string {
  if (answer.kind === "answered") return `${answer.name} (${answer.by})`;
  return answer.kind === "rule" ? `decided by the standing rule ${answer.ruleId}` : "no longer asked";
}

/** What a call is about; a file opens. */
function subjectOf(text: string): HTMLElement {
  const href = fileLink(text);
  const code = h("code", { class: "subject" }, text);
  return href === undefined ? code : h("a", { href: "#", "data-href": href, title: `Open ${text}` }, code);
}

function outcome(item: CallItem, word: string): string {
  const summary = item.summary.split("\n")[0] ?? "";
  return item.status !== undefined && summary ? `${word}: ${summary}` : word;
}

function note(item: NoteItem, post: (message: FromPage) => void): HTMLElement {
  if (item.tone === "question") {
    return h("div", { class: "said question" }, h("span", { class: "speaker" }, "Question"), markdown(item.text));
  }
  // What has cured itself is a line that can be read, and no alarm.
  if (item.healed) {
    return h("details", { class: "note healed" }, h("summary", {}, "A model request failed and was made again"), h("p", {}, item.text));
  }
  const { shortening, taskId } = item;
  const undo = shortening !== undefined && h("button", { type: "button", class: "link", "data-undo": true, click: () => post({ type: "undoShortening", taskId, seq: shortening }) }, "Undo");
  if (item.detail !== undefined) return h("details", { class: "note" }, h("summary", {}, item.text), markdown(item.detail), undo);
  const sign = item.tone === "bad" ? STATES.failed.sign : item.tone === "good" ? STATES.completed.sign : "·";
  return h("p", { class: `note ${item.tone}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), ` ${item.text}`, undo && " ", undo);
}
