// What a client knows of the server's tasks: a pure reducer over `roo/event`.
// The chat, the tree and the status bar are views of this value and of nothing else.
import type {
  ApprovalOption,
  Ask,
  ContextMeter,
  DegradedUntil,
  EventParams,
  Message,
  MessageId,
  PendingApproval,
  PendingQuestion,
  QueueItem,
  RestoreWhat,
  Say,
  TaskId,
  TaskState,
  TodoItem,
  ToolCallId,
  ToolStatus,
  TreeNode,
  Usage,
} from "./protocol.ts";

/** One request: a tree of tasks with one numbered log. */
export interface Request {
  readonly rootId: TaskId;
  /** The newest number that was applied; 0 before the first. */
  readonly seq: number;
  readonly title: string;
  readonly tasks: Readonly<Record<TaskId, Task>>;
  /** The branches as the server draws them, parents before children. */
  readonly nodes: readonly TreeNode[];
  /** What happened, in order. */
  readonly feed: readonly Item[];
  /** The commands in the background, with their lines. */
  readonly commands: Readonly<Record<string, string>>;
  /** The restores that have begun, by the numbers of their events. */
  readonly restores: Readonly<Record<number, { readonly what: RestoreWhat; readonly files: number; readonly by: string }>>;
  /** Why the server works with reduced function, oldest first. */
  readonly warnings: readonly Warning[];
}

/** A state of reduced function that is not over. */
export interface Warning {
  readonly reason: string;
  /** What ends it; none where nothing does. */
  readonly until: DegradedUntil | undefined;
}

/** One mode at work on one part of a request. */
export interface Task {
  readonly id: TaskId;
  readonly parentId: TaskId | undefined;
  readonly mode: string;
  readonly profile: string | undefined;
  readonly title: string;
  readonly state: TaskState;
  readonly reason: string | undefined;
  readonly approval: PendingApproval | undefined;
  readonly question: PendingQuestion | undefined;
  /** The number of the event that asked for what waits. */
  readonly askSeq: number | undefined;
  readonly todo: readonly TodoItem[];
  readonly queue: readonly QueueItem[];
  readonly usage: Usage;
  /** Usage of the newest model request alone: what its context held, and what it answered. */
  readonly lastRequest: Usage | undefined;
  /** The size of the newest model request by its parts, from servers that tell it. */
  readonly context: ContextMeter | undefined;
  /** True while a model writes the summary that shortens the conversation. */
  readonly isCondensing: boolean;
  /** When a model request will be made again, and why. */
  readonly retry: { readonly at: number; readonly reason: string } | undefined;
  /** Calls whose message has come, and which nothing else was heard of yet. */
  readonly unclaimed: readonly MessageId[];
}

/** One entry of a feed. */
export type Item = MessageItem | CallItem | NoteItem;

interface Entry {
  /** Unique in its request, stable over its versions. */
  readonly key: string;
  readonly taskId: TaskId;
  readonly at: number;
}

/** Something that was said. */
export interface MessageItem extends Entry {
  readonly kind: "message";
  readonly say: Say;
  readonly text: string;
  readonly images: readonly string[];
  /** The number of the event that said it first; none while it streams. */
  readonly seq: number | undefined;
  /** Whether more of it is to come. */
  readonly streaming: boolean;
}

/** A tool call, from its first letter to its result. */
export interface CallItem extends Entry {
  readonly kind: "call";
  /** Roo's payload, or a command line; incomplete while it streams. */
  readonly text: string;
  readonly ask: Ask | undefined;
  readonly streaming: boolean;
  readonly callId: ToolCallId | undefined;
  /** What runs and on what, once it runs. */
  readonly running: { readonly name: string; readonly subject: string } | undefined;
  readonly output: Output;
  readonly status: ToolStatus | undefined;
  readonly summary: string;
  /** The exit code of the command that it ran. */
  readonly exitCode: number | undefined;
  /** Pictures that the model got of it, as data URLs. */
  readonly images: readonly string[];
  /** What was asked about it, newest last. */
  readonly approvals: readonly Asked[];
}

/** The end of what a call has printed. */
export interface Output {
  readonly text: string;
  /** How many bytes were printed before the text, and are not kept. */
  readonly base: number;
  /** How many bytes the text has, so that it isn't encoded again for each piece. */
  readonly length: number;
}

/** A permission that was asked for. */
export interface Asked {
  readonly approvalId: string;
  readonly title: string;
  readonly subject: string;
  readonly reason: string;
  readonly options: readonly ApprovalOption[];
  readonly answer: Answer | undefined;
}

/** What became of a permission that was asked for: an answer with its author, a standing rule with its id, or nothing. */
export type Answer = { readonly by: string } & ({ readonly kind: "answered"; readonly name: string } | { readonly kind: "rule"; readonly ruleId: string } | { readonly kind: "void" });

/** Something that happened to a task. */
export interface NoteItem extends Entry {
  readonly kind: "note";
  readonly tone: "info" | "question" | "good" | "bad";
  readonly text: string;
  /** The question that it repeats. */
  readonly questionId?: string;
  /** More to read, such as the summary in place of earlier turns. */
  readonly detail?: string;
  /** The number of the shortening that it tells of, until that is undone. */
  readonly shortening?: number;
  /** True for the failure of a model request that was made again and then worked. */
  readonly healed?: boolean;
}

/** What came of an event. */
export interface Applied {
  readonly request: Request;
  /** Whether numbers are missing before it; it was not applied then. */
  readonly gap: boolean;
}

const SETTLED: readonly TaskState[] = ["completed", "failed", "cancelled"];
/** From these `roo/task/resume` goes on. */
const RESUMABLE: readonly TaskState[] = ["interrupted", "failed", "cancelled"];

/** A request of which nothing is known yet. */
export function unknownRequest(rootId: TaskId): Request {
  return { rootId, seq: 0, title: "", tasks: {}, nodes: [], feed: [], commands: {}, restores: {}, warnings: [] };
}

/** Applies an event. Events that were applied before change nothing. */
export function apply(request: Request, params: EventParams): Applied {
  const { seq } = params;
  if (seq == null) return { request: applyLive(request, params), gap: false };
  if (seq <= request.seq) return { request, gap: false };
  if ((params.from ?? seq) > request.seq + 1) return { request, gap: true };
  return { request: { ...applyNumbered(request, params), seq }, gap: false };
}

function applyLive(request: Request, { taskId, at, event }: EventParams): Request {
  switch (event.type) {
    case "message.delta":
      return stream(request, taskId, at, event.id, event.say, event.offset, event.text);
    case "tool.output":
      return callOf(request, taskId, event.toolCallId, (item) => ({
        output: printed(item.output, event.offset, event.text),
      }));
    case "tree.changed":
      return treeChanged(request, event.nodes);
    case "server.degraded":
      return warned(request, { reason: event.reason, until: event.until ?? undefined });
    case "server.recovered":
      return { ...request, warnings: request.warnings.filter(({ until }) => until === undefined) };
    default:
      return request;
  }
}

function applyNumbered(request: Request, params: EventParams): Request {
  const { taskId, at, event, seq } = params;
  const key = `${taskId}#${seq}`;
  const note = (on: Request, tone: NoteItem["tone"], text: string): Request =>
    appended(on, { kind: "note", key, taskId, at, tone, text });

  switch (event.type) {
    case "task.created": {
      const task = { ...unknownTask(taskId), parentId: event.parentId ?? undefined, mode: event.mode, title: event.title };
      const title = taskId === request.rootId ? event.title : request.title;
      return { ...request, title, tasks: { ...request.tasks, [taskId]: task } };
    }
    case "task.forked": {
      // What was used, and what waits, is the other request's.
      const tasks = Object.fromEntries(Object.entries(request.tasks).map(([id, task]) => [id, { ...task, usage: {}, queue: [] }]));
      const own = tasks[taskId] ? { ...tasks, [taskId]: { ...tasks[taskId], title: event.title } } : tasks;
      return note({ ...request, title: event.title, tasks: own }, "info", `Forked from ${event.from.urid} at event ${event.from.seq}`);
    }
    case "task.imported":
      return note(request, "info", `Imported from ${event.from.program}, task ${event.from.taskId}`);
    case "task.state":
      return stateChanged(request, taskId, event.state, event.reason ?? undefined, event.usage ?? undefined, note);
    case "message":
      return said(request, taskId, at, event.message, seq ?? undefined);
    case "message.delta":
    case "tool.output":
    case "tree.changed":
    case "server.degraded":
    case "server.recovered":
      return applyLive(request, params);
    case "gate.decided":
      return callOf(request, taskId, event.toolCallId, () => ({}));
    case "approval.requested": {
      const { type: _type, ...approval } = event;
      const asked: Asked = {
        approvalId: approval.approvalId,
        title: approval.title,
        subject: approval.subject,
        reason: approval.reason,
        options: approval.options,
        answer: undefined,
      };
      const waiting = onTask(request, taskId, { approval, askSeq: seq ?? undefined, state: "waiting" });
      // After an interruption it is asked again, by the same id if it is about the same.
      const others = (item: CallItem): readonly Asked[] => item.approvals.filter((one) => one.approvalId !== asked.approvalId);
      return callOf(waiting, taskId, event.toolCallId, (item) => ({ approvals: [...others(item), asked] }));
    }
    case "approval.resolved": {
      const { approvalId, by, optionId, ruleId } = event;
      const pending = request.tasks[taskId]?.approval;
      const resolved =
        pending?.approvalId === approvalId ? onTask(request, taskId, { approval: undefined, ...goesOn(request, taskId) }) : request;
      return changed(
        resolved,
        (item) => item.kind === "call" && item.approvals.some((asked) => asked.approvalId === approvalId),
        (item) => (item.kind === "call" ? { ...item, approvals: item.approvals.map(answered(approvalId, by, optionId, ruleId)) } : item),
      );
    }
    case "question.asked": {
      const { type: _type, ...question } = event;
      const waiting = onTask(request, taskId, { question, askSeq: seq ?? undefined, state: "waiting" });
      return appended(waiting, { kind: "note", key, taskId, at, tone: "question", text: event.text, questionId: event.questionId });
    }
    case "question.answered": {
      if (request.tasks[taskId]?.question?.questionId !== event.questionId) return request;
      return onTask(request, taskId, { question: undefined, ...goesOn(request, taskId) });
    }
    case "tool.started":
      return callOf(request, taskId, event.toolCallId, () => ({ running: { name: event.name, subject: event.subject } }));
    case "tool.finished":
      return callOf(request, taskId, event.toolCallId, () => ({
        status: event.status,
        summary: event.summary,
        exitCode: event.exitCode ?? undefined,
        images: event.images ?? [],
        streaming: false,
      }));
    case "command.backgrounded":
      return note(
        { ...request, commands: { ...request.commands, [event.commandId]: event.command } },
        "info",
        `Continues in the background as ${event.commandId}: ${event.command}`,
      );
    case "command.ended": {
      const { [event.commandId]: _ended, ...commands } = request.commands;
      return note({ ...request, commands }, "info", `${event.commandId} has ended: ${event.summary}`);
    }
    case "mode.switched": {
      const mode = event.mode ? { mode: event.mode } : {};
      const profile = event.profile ? { profile: event.profile } : {};
      const what = [event.mode && `mode ${event.mode}`, event.profile && `profile ${event.profile}`].filter(Boolean);
      return note(onTask(request, taskId, { ...mode, ...profile }), "info", `Continues in ${what.join(" and ")}`);
    }
    case "intent.selected":
      return note(request, "info", `Works on the intent ${event.intentId}: ${event.name}`);
    case "todo.changed":
      return onTask(request, taskId, { todo: event.items });
    case "queue.changed":
      return onTask(request, taskId, { queue: event.items });
    case "usage": {
      const { type: _type, context, ...usage } = event;
      const lastRequest = since(request.tasks[taskId]?.usage ?? {}, usage);
      return healed(onTask(request, taskId, { usage, lastRequest, context: context ?? undefined, retry: undefined }), taskId);
    }
    case "retry.scheduled":
      return onTask(request, taskId, { retry: { at: event.at, reason: event.reason } });
    case "context.shortening":
      return onTask(request, taskId, { isCondensing: event.method === "summary" });
    case "context.shortened": {
      const text = `Context shortened: ${tokens(event.tokensBefore)} → ${tokens(event.tokensAfter)} tokens`;
      const detail = event.summary ? { detail: event.summary } : {};
      const undo = seq == null ? {} : { shortening: seq };
      return appended(onTask(request, taskId, { isCondensing: false }), { kind: "note", key, taskId, at, tone: "info", text, ...detail, ...undo });
    }
    case "context.kept":
      return note(onTask(request, taskId, { isCondensing: false }), "info", `Context not shortened: ${event.reason}`);
    case "context.restored": {
      const undone = changed(request, (item) => item.kind === "note" && item.shortening === event.seq && item.taskId === taskId, (item) => {
        if (item.kind !== "note") return item;
        const { shortening: _shortening, ...rest } = item;
        return rest;
      });
      return note(undone, "info", `Shortening undone: ${tokens(event.tokensBefore)} → ${tokens(event.tokensAfter)} tokens`);
    }
    case "edit.applied":
      return request;
    case "restore.started":
      return seq == null ? request : { ...request, restores: { ...request.restores, [seq]: { what: event.what, files: event.files.length, by: event.by } } };
    case "restore.finished": {
      const begun = request.restores[event.seq];
      if (!event.done) return note(request, "bad", `Nothing was restored: ${event.reason ?? "no reason was given"}`);
      const files = begun && begun.what !== "conversation" ? `${begun.files} ${begun.files === 1 ? "file" : "files"}` : undefined;
      const conversation = event.conversationBefore == null ? undefined : "the conversation";
      return note(request, "info", `Restored ${[files, conversation].filter(Boolean).join(" and ") || "an earlier state"}${begun ? ` (${begun.by})` : ""}`);
    }
    default:
      // An event of a newer server; its number counts all the same.
      return request;
  }
}

/** A warning takes the place of the one that ends with it, or that says the same. */
function warned(request: Request, warning: Warning): Request {
  const stays = ({ reason, until }: Warning): boolean => until !== warning.until || (until === undefined && reason !== warning.reason);
  return { ...request, warnings: [...request.warnings.filter(stays), warning] };
}

function tokens(count: number): string {
  return count.toLocaleString("en-US");
}

/** An answered task works on; one that was interrupted first has to be resumed. */
function goesOn(request: Request, taskId: TaskId): Partial<Task> {
  return request.tasks[taskId]?.state === "waiting" ? { state: "running" } : {};
}

/** The tree is the server's word on the states of tasks; events tell how a task came to its own. */
function treeChanged(request: Request, nodes: readonly TreeNode[]): Request {
  const differs = nodes.filter((node) => {
    const task = request.tasks[node.id];
    return task !== undefined && task.state !== node.state;
  });
  return differs.reduce((next, { id, state }) => onTask(next, id, { state, reason: undefined }), { ...request, nodes });
}

function stateChanged(
  request: Request,
  taskId: TaskId,
  state: TaskState,
  reason: string | undefined,
  usage: Usage | undefined,
  note: (on: Request, tone: NoteItem["tone"], text: string) => Request,
): Request {
  const before = request.tasks[taskId]?.state;
  const settled = SETTLED.includes(state);
  const change: Partial<Task> = { state, reason, ...(usage && { usage }), ...(state !== "running" && { retry: undefined, isCondensing: false }) };
  let next = onTask(request, taskId, settled ? { ...change, approval: undefined, question: undefined } : change);
  if (state !== "running") next = ended(next, taskId);
  if (state === "completed") return next;
  if (state === "failed") return note(next, "bad", reason ? `Failed: ${reason}` : "Failed");
  if (state === "cancelled") return note(next, "info", "Cancelled");
  if (state === "interrupted") return note(next, "bad", "Interrupted; it can be resumed");
  if (state === "running" && before !== undefined && RESUMABLE.includes(before)) return note(next, "info", "Resumed");
  return next;
}

/** Nothing streams in a task that has stopped. */
function ended(request: Request, taskId: TaskId): Request {
  const streams = (item: Item): boolean => item.taskId === taskId && item.kind !== "note" && item.streaming;
  if (!request.feed.some(streams)) return request;
  const feed = request.feed.map((item) => (streams(item) && item.kind !== "note" ? { ...item, streaming: false } : item));
  return { ...request, feed };
}

function said(request: Request, taskId: TaskId, at: number, message: Message, seq: number | undefined): Request {
  const key = `${taskId}/${message.id}`;
  if ("ask" in message || message.say === "tool") {
    const existing = find(request, key);
    const ask = "ask" in message ? message.ask : undefined;
    if (existing?.kind === "call") {
      const claimable = existing.callId === undefined && !isUnclaimed(request, taskId, message.id);
      const next = replaced(request, key, { ...existing, text: message.text, ask, streaming: false });
      return claimable ? unclaimed(next, taskId, message.id) : next;
    }
    return unclaimed(appended(request, call(key, taskId, at, message.text, ask, false)), taskId, message.id);
  }
  if (message.say === "api_req_started") return requested(request, taskId, at, message);
  if (["checkpoint_saved", "mcp_server_request_started", "mcp_server_response"].includes(message.say)) return request;
  if (message.say === "command_output") {
    // The whole of what streamed before.
    const told = callOf(request, taskId, message.id, () => ({ output: whole(message.text) }));
    if (told !== request) return told;
  }
  const item: MessageItem = {
    kind: "message",
    key,
    taskId,
    at,
    say: message.say,
    text: message.text,
    images: message.images ?? [],
    seq,
    streaming: false,
  };
  const existing = find(request, key);
  if (existing === undefined) return appended(request, item);
  return replaced(request, key, existing.kind === "message" ? { ...item, seq: existing.seq ?? seq } : item);
}

/** A model request began, or failed; what it had said is void then. */
function requested(request: Request, taskId: TaskId, at: number, message: Message): Request {
  const payload = parsed(message.text);
  const cleared = onTask(request, taskId, { retry: undefined });
  if (payload["cancelReason"] === undefined) return cleared;
  const prefix = `${taskId}/${message.id}.`;
  const feed = cleared.feed.filter((item) => !item.key.startsWith(prefix));
  const gone = onTask({ ...cleared, feed }, taskId, {
    unclaimed: (cleared.tasks[taskId]?.unclaimed ?? []).filter((id) => !id.startsWith(`${message.id}.`)),
  });
  const why = payload["streamingFailedMessage"];
  if (payload["cancelReason"] === "user_cancelled" || typeof why !== "string") return gone;
  return appended(gone, { kind: "note", key: `${taskId}/${message.id}!`, taskId, at, tone: "bad", text: why });
}

/** The failures of a task's model requests are over: one has worked. */
function healed(request: Request, taskId: TaskId): Request {
  const isFailure = (item: Item): item is NoteItem =>
    item.kind === "note" && item.taskId === taskId && item.tone === "bad" && item.key.endsWith("!") && !item.healed;
  if (!request.feed.some(isFailure)) return request;
  return { ...request, feed: request.feed.map((item) => (isFailure(item) ? { ...item, healed: true } : item)) };
}

/** What a task has used since: its totals only grow. */
function since(before: Usage, now: Usage): Usage {
  const grown = (key: keyof Usage): number => Math.max(0, (now[key] ?? 0) - (before[key] ?? 0));
  return {
    tokensIn: grown("tokensIn"),
    tokensOut: grown("tokensOut"),
    cacheReads: grown("cacheReads"),
    cacheWrites: grown("cacheWrites"),
    costUsd: grown("costUsd"),
  };
}

/** The tokens that a request held, without its answer. */
export function contextTokens({ tokensIn = 0, cacheReads = 0, cacheWrites = 0 }: Usage): number {
  return tokensIn + cacheReads + cacheWrites;
}

/** All tokens: what was sent, from the cache or not, and what was answered. */
export function allTokens(usage: Usage): number {
  return contextTokens(usage) + (usage.tokensOut ?? 0);
}

function stream(
  request: Request,
  taskId: TaskId,
  at: number,
  id: MessageId,
  say: Say,
  offset: number,
  text: string,
): Request {
  const key = `${taskId}/${id}`;
  const existing = find(request, key);
  if (existing === undefined) {
    const begun: Item =
      say === "tool"
        ? call(key, taskId, at, placed("", offset, text), undefined, true)
        : { kind: "message", key, taskId, at, say, text: placed("", offset, text), images: [], seq: undefined, streaming: true };
    return appended(request, begun);
  }
  // What is whole already is not changed by a piece that comes late.
  if (existing.kind === "note" || !existing.streaming) return request;
  return replaced(request, key, { ...existing, text: placed(existing.text, offset, text) });
}

function call(
  key: string,
  taskId: TaskId,
  at: number,
  text: string,
  ask: Ask | undefined,
  streaming: boolean,
): CallItem {
  return {
    kind: "call",
    key,
    taskId,
    at,
    text,
    ask,
    streaming,
    callId: undefined,
    running: undefined,
    output: NO_OUTPUT,
    status: undefined,
    summary: "",
    exitCode: undefined,
    images: [],
    approvals: [],
  };
}

/**
 * Changes the item of a call. Messages don't name their call, but calls are judged in the order of their
 * messages: one that is heard of for the first time is the oldest that nothing was heard of.
 */
function callOf(
  request: Request,
  taskId: TaskId,
  callId: ToolCallId,
  change: (item: CallItem) => Partial<CallItem>,
): Request {
  const known = request.feed.findLast(
    (item): item is CallItem => item.kind === "call" && item.taskId === taskId && item.callId === callId,
  );
  if (known) return replaced(request, known.key, { ...known, ...change(known) });
  const [id, ...rest] = request.tasks[taskId]?.unclaimed ?? [];
  const item = id === undefined ? undefined : find(request, `${taskId}/${id}`);
  if (item?.kind !== "call") return request;
  return replaced(onTask(request, taskId, { unclaimed: rest }), item.key, { ...item, callId, ...change({ ...item, callId }) });
}

function isUnclaimed(request: Request, taskId: TaskId, id: MessageId): boolean {
  return request.tasks[taskId]?.unclaimed.includes(id) ?? false;
}

function unclaimed(request: Request, taskId: TaskId, id: MessageId): Request {
  return onTask(request, taskId, { unclaimed: [...(request.tasks[taskId]?.unclaimed ?? []), id] });
}

function answered(approvalId: string, by: string, optionId: Chosen, ruleId: Chosen): (asked: Asked) => Asked {
  return (asked) => {
    if (asked.approvalId !== approvalId) return asked;
    return { ...asked, answer: answerOf(asked.options, by, optionId, ruleId) };
  };
}

/** The id of an option or of a standing rule, where one was chosen or has decided. */
type Chosen = string | null | undefined;

function answerOf(options: readonly ApprovalOption[], by: string, optionId: Chosen, ruleId: Chosen): Answer {
  if (optionId != null) return { kind: "answered", by, name: options.find((option) => option.id === optionId)?.name ?? optionId };
  return ruleId != null ? { kind: "rule", by, ruleId } : { kind: "void", by };
}

function unknownTask(id: TaskId): Task {
  return {
    id,
    parentId: undefined,
    mode: "",
    profile: undefined,
    title: "",
    state: "running",
    reason: undefined,
    approval: undefined,
    question: undefined,
    askSeq: undefined,
    todo: [],
    queue: [],
    usage: {},
    lastRequest: undefined,
    context: undefined,
    isCondensing: false,
    retry: undefined,
    unclaimed: [],
  };
}

function onTask(request: Request, taskId: TaskId, change: Partial<Task>): Request {
  const task = request.tasks[taskId] ?? unknownTask(taskId);
  return { ...request, tasks: { ...request.tasks, [taskId]: { ...task, ...change } } };
}

function appended(request: Request, item: Item): Request {
  return { ...request, feed: [...request.feed, item] };
}

// What changes is nearly always among the newest.
function find(request: Request, key: string): Item | undefined {
  return request.feed.findLast((item) => item.key === key);
}

function replaced(request: Request, key: string, item: Item): Request {
  return changed(request, (one) => one.key === key, () => item);
}

function changed(request: Request, which: (item: Item) => boolean, change: (item: Item) => Item): Request {
  const place = request.feed.findLastIndex(which);
  const item = request.feed[place];
  return item === undefined ? request : { ...request, feed: request.feed.with(place, change(item)) };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Puts a piece of a text to its place, which is counted in bytes. */
export function placed(text: string, offset: number, piece: string): string {
  const bytes = encoder.encode(text);
  return (offset >= bytes.length ? text : decoder.decode(bytes.subarray(0, offset))) + piece;
}

/** The most that is kept of the output of a call that runs, in bytes. Once there is more, half of it is let go at a time. */
export const OUTPUT_LIMIT = 64 * 1024;

const NO_OUTPUT: Output = { text: "", base: 0, length: 0 };

/** An output that is told at once. */
function whole(text: string): Output {
  return { text, base: 0, length: encoder.encode(text).length };
}

/** Puts a piece of output to its place. A piece at the end costs no more than its own length. */
export function printed({ text, base, length }: Output, offset: number, piece: string): Output {
  const added = encoder.encode(piece).length;
  const end = base + length;
  // What the server left out for a slow client counts as printed before.
  if (offset >= end) return shortened({ text: text + piece, base: base + offset - end, length: length + added });
  // It is told again, as after attaching again.
  if (offset <= base) return shortened({ text: piece, base: offset, length: added });
  return shortened({ text: placed(text, offset - base, piece), base, length: offset - base + added });
}

function shortened(output: Output): Output {
  if (output.length <= OUTPUT_LIMIT) return output;
  const bytes = encoder.encode(output.text);
  let from = bytes.length - OUTPUT_LIMIT / 2;
  const line = bytes.indexOf(0x0a, from) + 1;
  // From the beginning of a line, if lines are short, and never from within a character.
  if (line > 0 && line < bytes.length - OUTPUT_LIMIT / 4) from = line;
  while (((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1;
  const text = decoder.decode(bytes.subarray(from));
  return { text, base: output.base + from, length: bytes.length - from };
}

/** Roo's payload of a message; empty where it isn't JSON. */
export function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** A task that waits for its user. */
export interface Waiting {
  readonly task: Task;
  readonly approval: PendingApproval | undefined;
  readonly question: PendingQuestion | undefined;
}

/** What waits for the user, in the order in which it was asked: what comes later goes behind. */
export function waiting(request: Request): readonly Waiting[] {
  return Object.values(request.tasks)
    .filter((task) => task.approval ?? task.question)
    .sort((one, other) => (one.askSeq ?? 0) - (other.askSeq ?? 0))
    .map((task) => ({ task, approval: task.approval, question: task.question }));
}

/** The root task. */
export function root(request: Request): Task | undefined {
  return request.tasks[request.rootId];
}

/** Whether something may still happen without the user resuming it. */
export function isActive(request: Request): boolean {
  const state = root(request)?.state;
  return state === "running" || state === "waiting" || state === "paused";
}

/** The state of a request as a whole: it waits if any branch does, and is running while its own task waits for a branch. */
export function overallState(request: Request): TaskState {
  const state = root(request)?.state ?? "running";
  if (isActive(request) && waiting(request).length > 0) return "waiting";
  return state === "paused" ? "running" : state;
}

/** Whether the request can be resumed. */
export function isResumable(request: Request): boolean {
  const state = root(request)?.state;
  return state !== undefined && RESUMABLE.includes(state);
}

/** What all branches have used. */
export function total(request: Request): { tokens: number; costUsd: number } {
  return request.nodes.reduce(
    (sum, node) => ({ tokens: sum.tokens + node.tokens, costUsd: sum.costUsd + node.costUsd }),
    { tokens: 0, costUsd: 0 },
  );
}
