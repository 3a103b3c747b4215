// The reducer: what events make of a request.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event, EventParams, Message } from "../../src/protocol.ts";
import {
  allTokens,
  apply,
  contextTokens,
  isActive,
  isResumable,
  OUTPUT_LIMIT,
  placed,
  printed,
  root,
  total,
  unknownRequest,
  waiting,
  type CallItem,
  type Item,
  type MessageItem,
  type Request,
} from "../../src/state.ts";

const ROOT = "root";
const CREATED: Event = { type: "task.created", urid: "u", mode: "code", title: "Do it" };

/** Events of the root task; those that a log doesn't hold come without a number. */
function numbered(...events: Event[]): EventParams[] {
  let seq = 0;
  return events.map((event) => {
    const live = ["message.delta", "tool.output", "tree.changed", "server.degraded", "server.recovered"].includes(event.type);
    return { rootId: ROOT, taskId: ROOT, at: 1, ...(live ? {} : { seq: (seq += 1) }), event };
  });
}

function after(...events: Event[]): Request {
  return numbered(...events).reduce((request, params) => {
    const applied = apply(request, params);
    assert.ok(!applied.gap);
    return applied.request;
  }, unknownRequest(ROOT));
}

const said = (message: Message): Event => ({ type: "message", message });
const delta = (id: string, offset: number, text: string): Event => ({ type: "message.delta", id, say: "text", offset, text });
const message = (item: Item | undefined): MessageItem => {
  assert.equal(item?.kind, "message");
  return item as MessageItem;
};
const call = (item: Item | undefined): CallItem => {
  assert.equal(item?.kind, "call");
  return item as CallItem;
};
const asked: Event = {
  type: "approval.requested",
  approvalId: "root.a3",
  toolCallId: "c1",
  digest: "d",
  title: "Create a.md",
  subject: "--- /dev/null",
  reason: "it is new",
  options: [
    { id: "no", name: "Deny", kind: "reject_once" },
    { id: "yes", name: "Allow", kind: "allow_once" },
  ],
};

test("a fork has its own title and totals from its event on", () => {
  const usage = { tokensIn: 1000, tokensOut: 10, cacheReads: 0, cacheWrites: 0, costUsd: 0.5 };
  const before: Event[] = [CREATED, { type: "usage", ...usage }, { type: "queue.changed", items: [{ id: "q1", text: "Later", when: "now" }] }];
  const forked = after(...before, { type: "task.forked", urid: "v", title: "Again", from: { taskId: "other", urid: "u", seq: 3, usage } });
  assert.equal(after(...before).tasks[ROOT]?.usage.tokensIn, 1000);
  assert.equal(forked.title, "Again");
  assert.deepEqual([forked.tasks[ROOT]?.title, forked.tasks[ROOT]?.usage, forked.tasks[ROOT]?.queue], ["Again", {}, []]);
  assert.deepEqual(forked.feed.map((item) => item.kind === "note" && item.text), ["Forked from u at event 3"]);
});

test("an imported request says where it is from", () => {
  const imported = after(CREATED, { type: "task.imported", from: { program: "Roo Code", taskId: "other" } });
  assert.deepEqual(imported.feed.map((item) => item.kind === "note" && item.text), ["Imported from Roo Code, task other"]);
});

test("pieces of a text are put together, and replaced by the whole", () => {
  const streamed = after(CREATED, delta("r1.b0", 0, "Hel"), delta("r1.b0", 3, "lo"));
  assert.equal(message(streamed.feed[0]).text, "Hello");
  assert.ok(message(streamed.feed[0]).streaming);
  const whole = apply(streamed, { rootId: ROOT, taskId: ROOT, seq: 2, at: 2, event: said({ id: "r1.b0", say: "text", text: "Hello!" }) }).request;
  assert.equal(whole.feed.length, 1);
  assert.equal(message(whole.feed[0]).text, "Hello!");
  assert.ok(!message(whole.feed[0]).streaming);
  const late = apply(whole, { rootId: ROOT, taskId: ROOT, at: 3, event: delta("r1.b0", 3, "p") }).request;
  assert.equal(message(late.feed[0]).text, "Hello!", "a late piece changes nothing");
});

test("places are counted in bytes", () => {
  assert.equal(placed("é", 2, "x"), "éx");
  assert.equal(placed("éab", 2, "x"), "éx");
  assert.equal(placed("🪃", 4, "!"), "🪃!");
  assert.equal(placed("abc", 0, "abcd"), "abcd");
  assert.equal(placed("abc", 9, "d"), "abcd");
});

const NOTHING = { text: "", base: 0, length: 0 };

test("of a long output the end is kept, at a cost that does not grow with what came before", () => {
  const running = after(
    CREATED,
    said({ id: "r1.b0", ask: "command", text: "make" }),
    { type: "gate.decided", toolCallId: "c1", verdict: "allow", rule: "", reason: "" },
    { type: "tool.started", toolCallId: "c1", name: "execute_command", subject: "make" },
  );
  const piece = `${"x".repeat(1023)}\n`.repeat(10);
  let encoded = 0;
  const encode = TextEncoder.prototype.encode;
  TextEncoder.prototype.encode = function (text) {
    encoded += text?.length ?? 0;
    return encode.call(this, text);
  };
  let request = running;
  try {
    for (let index = 0; index < 10_000; index += 1) {
      const event: Event = { type: "tool.output", toolCallId: "c1", offset: index * piece.length, text: piece };
      request = apply(request, { rootId: ROOT, taskId: ROOT, at: 1, event }).request;
      assert.ok(call(request.feed[0]).output.text.length <= OUTPUT_LIMIT);
    }
  } finally {
    TextEncoder.prototype.encode = encode;
  }
  const { text, base, length } = call(request.feed[0]).output;
  assert.deepEqual([base + length, length], [10_000 * piece.length, text.length]);
  assert.ok(text.startsWith("x".repeat(1023)) && text.endsWith("x\n"), "whole lines");
  assert.ok(encoded < 5 * 10_000 * piece.length, `${encoded} characters were encoded`);
});

test("a piece of output has its place, whatever was left out before it", () => {
  const long = printed(NOTHING, 0, "é".repeat(OUTPUT_LIMIT));
  assert.ok(long.base > 0 && /^é+$/.test(long.text), "no character is cut");
  assert.equal(long.base + long.length, 2 * OUTPUT_LIMIT);
  const on = printed(long, 2 * OUTPUT_LIMIT, "end");
  assert.ok(on.text.endsWith("éend"));
  // Told again from within what is kept, and from before it.
  assert.deepEqual(printed(on, 2 * OUTPUT_LIMIT - 2, "éend"), on);
  assert.deepEqual(printed(on, 8, "again"), { text: "again", base: 8, length: 5 });
  // The server left bytes out: what comes then counts on from its own place.
  const gap = printed(printed(NOTHING, 0, "ab"), 100, "cd");
  assert.deepEqual(printed(gap, 102, "e"), { text: "abcde", base: 98, length: 5 });
});

test("an event comes once, and what is missing is noticed", () => {
  const begun = after(CREATED, said({ id: "m1", say: "text", text: "Do it" }));
  const again = apply(begun, { rootId: ROOT, taskId: ROOT, seq: 2, at: 1, event: said({ id: "m1", say: "text", text: "other" }) });
  assert.equal(again.request, begun);
  const far = apply(begun, { rootId: ROOT, taskId: ROOT, seq: 4, at: 1, event: said({ id: "m2", say: "text", text: "x" }) });
  assert.ok(far.gap);
  assert.equal(far.request, begun);
  const merged = apply(begun, { rootId: ROOT, taskId: ROOT, seq: 5, from: 3, at: 1, event: said({ id: "m2", say: "text", text: "x" }) });
  assert.ok(!merged.gap);
  assert.equal(merged.request.seq, 5);
});

test("a replay from the beginning gives the same as the events when they happened", () => {
  const events = numbered(
    CREATED,
    said({ id: "m1", say: "text", text: "Do it" }),
    said({ id: "r1.b0", say: "tool", text: '{"tool":"editedExistingFile","path":"a.md"}' }),
    { type: "gate.decided", toolCallId: "c1", verdict: "ask", rule: "policy", reason: "" },
    asked,
    { type: "approval.resolved", approvalId: "root.a3", by: "vscode", optionId: "yes" },
    { type: "tool.started", toolCallId: "c1", name: "write_to_file", subject: "a.md" },
    { type: "tool.finished", toolCallId: "c1", status: "ok", summary: "Created a.md" },
  );
  const play = (from: Request, params: readonly EventParams[]): Request => params.reduce((request, one) => apply(request, one).request, from);
  const whole = play(unknownRequest(ROOT), events);
  for (let cut = 0; cut <= events.length; cut += 1) {
    const part = play(unknownRequest(ROOT), events.slice(0, cut));
    // Attached again from the beginning, and from where it was.
    assert.deepEqual(play(part, events), whole);
    assert.deepEqual(play(part, events.slice(cut)), whole);
  }
});

test("calls are joined with what is heard of them, in order", () => {
  const request = after(
    CREATED,
    said({ id: "r1.b0", say: "tool", text: '{"tool":"readFile","path":"a"}' }),
    said({ id: "r1.b1", ask: "command", text: "make" }),
    { type: "gate.decided", toolCallId: "c1", verdict: "allow", rule: "", reason: "" },
    { type: "tool.finished", toolCallId: "c1", status: "ok", summary: "read" },
    { type: "gate.decided", toolCallId: "c2", verdict: "allow", rule: "", reason: "" },
    { type: "tool.started", toolCallId: "c2", name: "execute_command", subject: "make" },
    { type: "tool.output", toolCallId: "c2", offset: 0, text: "bui" },
    { type: "tool.output", toolCallId: "c2", offset: 3, text: "lt" },
    { type: "tool.finished", toolCallId: "c2", status: "failed", summary: "exit code 1" },
    said({ id: "c2", say: "command_output", text: "Exit code: 1\nbuilt" }),
  );
  assert.equal(request.feed.length, 2);
  assert.equal(call(request.feed[0]).summary, "read");
  assert.equal(call(request.feed[1]).status, "failed");
  assert.equal(call(request.feed[1]).output.text, "Exit code: 1\nbuilt");
});

test("a permission waits until it is answered, and its answer stays with the call", () => {
  const tool = said({ id: "r1.b0", say: "tool", text: '{"tool":"editedExistingFile","path":"a.md"}' });
  const before = after(CREATED, tool, asked);
  assert.equal(waiting(before)[0]?.approval?.approvalId, "root.a3");
  assert.equal(root(before)?.state, "waiting");
  const answered = after(CREATED, tool, asked, { type: "approval.resolved", approvalId: "root.a3", by: "helix", optionId: "no" });
  assert.deepEqual(waiting(answered), []);
  assert.deepEqual(call(answered.feed[0]).approvals[0]?.answer, { kind: "answered", by: "helix", name: "Deny" });
  const isVoid = after(CREATED, tool, asked, { type: "approval.resolved", approvalId: "root.a3", by: "server" });
  assert.deepEqual(waiting(isVoid), []);
  assert.deepEqual(call(isVoid.feed[0]).approvals[0]?.answer, { kind: "void", by: "server" });
  const byRule = after(CREATED, tool, asked, { type: "approval.resolved", approvalId: "root.a3", by: "rule r2", ruleId: "r2" });
  assert.deepEqual(waiting(byRule), []);
  assert.deepEqual(call(byRule.feed[0]).approvals[0]?.answer, { kind: "rule", by: "rule r2", ruleId: "r2" });
  const named = after(CREATED, tool, asked, { type: "approval.resolved", approvalId: "root.a3", by: "rule r2" });
  assert.equal(call(named.feed[0]).approvals[0]?.answer?.kind, "void", "a name alone is no rule");
});

test("what waits is in the order in which it was asked", () => {
  const branch = (taskId: string, parentId: string): Event => ({ type: "task.created", urid: "u", mode: "code", title: taskId, parentId });
  const events: [string, Event][] = [
    ["root", CREATED],
    ["a", branch("a", "root")],
    ["b", branch("b", "root")],
    ["b", { ...asked, approvalId: "b.a1" }],
    ["a", { ...asked, approvalId: "a.a1" }],
  ];
  const request = events.reduce(
    (before, [taskId, event], index) => apply(before, { rootId: ROOT, taskId, at: 1, seq: index + 1, event }).request,
    unknownRequest(ROOT),
  );
  assert.deepEqual(waiting(request).map(({ approval }) => approval?.approvalId), ["b.a1", "a.a1"]);
});

test("a question waits until it is answered or the task ends", () => {
  const question: Event = { type: "question.asked", questionId: "root.q2", kind: "followup", text: "Which?", suggestions: [{ text: "A" }] };
  assert.equal(waiting(after(CREATED, question))[0]?.question?.text, "Which?");
  assert.deepEqual(waiting(after(CREATED, question, { type: "question.answered", questionId: "root.q2", by: "vscode", text: "A" })), []);
  assert.deepEqual(waiting(after(CREATED, question, { type: "task.state", state: "cancelled" })), []);
});

test("what a failed model request had said is void", () => {
  const request = after(
    CREATED,
    said({ id: "r1", say: "api_req_started", text: '{"request":1}' }),
    said({ id: "r1.b0", say: "text", text: "half" }),
    said({ id: "r1.b1", say: "tool", text: '{"tool":"readFile"}' }),
    said({ id: "r1", say: "api_req_started", text: '{"request":1,"cancelReason":"streaming_failed","streamingFailedMessage":"cut off"}' }),
    said({ id: "r2.b0", say: "tool", text: '{"tool":"readFile","path":"b"}' }),
    { type: "tool.finished", toolCallId: "c9", status: "ok", summary: "read" },
  );
  assert.deepEqual(request.feed.map((item) => item.kind), ["note", "call"]);
  assert.equal(call(request.feed[1]).status, "ok", "the void call is not waited for");
});

test("states say what can be done", () => {
  assert.ok(isActive(after(CREATED)));
  const cancelled = after(CREATED, { type: "task.state", state: "cancelled" });
  assert.ok(!isActive(cancelled) && isResumable(cancelled));
  const resumed = after(CREATED, { type: "task.state", state: "cancelled" }, { type: "task.state", state: "running" });
  assert.ok(isActive(resumed) && !isResumable(resumed));
  assert.deepEqual(resumed.feed.map((item) => item.kind === "note" && item.text), ["Cancelled", "Resumed"]);
  const completed = after(CREATED, { type: "task.state", state: "completed", result: "done" });
  assert.ok(!isActive(completed) && !isResumable(completed));
});

test("nothing streams in a task that has stopped", () => {
  const request = after(CREATED, delta("r1.b0", 0, "half"), { type: "task.state", state: "cancelled" });
  assert.ok(!message(request.feed[0]).streaming);
});

test("the tree is the server's, and its sums are", () => {
  const node = { mode: "code", emoji: "", title: "", state: "running", startedAt: 0 } as const;
  const request = after(CREATED, {
    type: "tree.changed",
    nodes: [
      { ...node, id: ROOT, tokens: 10, costUsd: 0.5 },
      { ...node, id: "root.4", parentId: ROOT, tokens: 5, costUsd: 0.25 },
    ],
  });
  assert.deepEqual(total(request), { tokens: 15, costUsd: 0.75 });
});

test("a warning stays until it is over, and one that lasts stays after that", () => {
  const degraded = (reason: string, until?: "recovered"): Event => ({ type: "server.degraded", reason, ...(until && { until }) });
  const reasons = (...events: Event[]): string[] => after(CREATED, ...events).warnings.map(({ reason }) => reason);
  const damaged = degraded("the log is damaged");
  assert.deepEqual(reasons(damaged, damaged), ["the log is damaged"]);
  const full = [damaged, degraded("the disk is full", "recovered"), degraded("the disk can't be synced", "recovered")];
  assert.deepEqual(reasons(...full), ["the log is damaged", "the disk can't be synced"]);
  assert.deepEqual(reasons(...full, { type: "server.recovered" }), ["the log is damaged"]);
});

test("an event of a newer server counts and changes nothing else", () => {
  const request = after(CREATED);
  const next = apply(request, { rootId: ROOT, taskId: ROOT, seq: 2, at: 1, event: { type: "weather.changed" } as unknown as Event });
  assert.deepEqual(next.request, { ...request, seq: 2 });
});

test("an event changes nothing of the value that it was applied to", () => {
  const freeze = <T>(value: T): T => {
    if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(freeze);
    return value;
  };
  let request = freeze(unknownRequest(ROOT));
  for (const params of numbered(CREATED, delta("r1.b0", 0, "a"), said({ id: "r1.b0", say: "tool", text: "{}" }), asked)) {
    request = freeze(apply(request, params).request);
  }
  assert.equal(request.seq, 3);
});

test("commands in the background are known until they end", () => {
  const begun: Event = { type: "command.backgrounded", toolCallId: "c1", commandId: "cmd-4", command: "npm run dev" };
  assert.deepEqual(after(CREATED, begun).commands, { "cmd-4": "npm run dev" });
  const ended: Event = { type: "command.ended", toolCallId: "c1", commandId: "cmd-4", status: "ok", summary: "stopped" };
  assert.deepEqual(after(CREATED, begun, ended).commands, {});
});

test("the newest request's context is what the totals have grown by", () => {
  const first = after(CREATED, { type: "usage", tokensIn: 100, tokensOut: 10, cacheReads: 1000, cacheWrites: 5, costUsd: 0.5 });
  assert.equal(contextTokens(root(first)?.lastRequest ?? {}), 1105);
  const second = after(
    CREATED,
    { type: "usage", tokensIn: 100, tokensOut: 10, cacheReads: 1000, cacheWrites: 5, costUsd: 0.5 },
    { type: "usage", tokensIn: 130, tokensOut: 30, cacheReads: 2100, cacheWrites: 5, costUsd: 0.75 },
  );
  assert.deepEqual(root(second)?.lastRequest, { tokensIn: 30, tokensOut: 20, cacheReads: 1100, cacheWrites: 0, costUsd: 0.25 });
  assert.equal(allTokens(root(second)?.usage ?? {}), 2265);
});

test("a failed request is healed by one that works, and a failed task is not", () => {
  const failed = said({ id: "r1", say: "api_req_started", text: '{"cancelReason":"streaming_failed","streamingFailedMessage":"cut off"}' });
  const notes = (request: Request): unknown[] => request.feed.flatMap((item) => (item.kind === "note" ? [[item.text, item.tone, item.healed ?? false]] : []));
  assert.deepEqual(notes(after(CREATED, failed)), [["cut off", "bad", false]]);
  assert.deepEqual(notes(after(CREATED, failed, { type: "usage", tokensIn: 1 })), [["cut off", "bad", true]]);
  const ended: Event = { type: "task.state", state: "failed", reason: "no more" };
  assert.deepEqual(notes(after(CREATED, failed, ended, { type: "usage", tokensIn: 1 })).at(-1), ["Failed: no more", "bad", false]);
});

test("a task that was interrupted while it asked can be resumed after the answer", () => {
  const interrupted: Event = { type: "task.state", state: "interrupted" };
  const resolved: Event = { type: "approval.resolved", approvalId: "root.a3", by: "user", optionId: "yes" };
  assert.equal(root(after(CREATED, asked, resolved))?.state, "running");
  const request = after(CREATED, asked, interrupted, resolved);
  assert.ok(isResumable(request) && waiting(request).length === 0);
});

test("the pictures of a tool's result are kept with its call", () => {
  const picture = "data:image/jpeg;base64,AQID";
  const request = after(
    CREATED,
    said({ id: "c1", say: "tool", text: '{"tool":"browserAction","action":"launch"}' }),
    { type: "gate.decided", toolCallId: "c1", verdict: "allow", rule: "", reason: "" },
    { type: "tool.started", toolCallId: "c1", name: "browser_action", subject: "launch http://localhost:3000" },
    { type: "tool.finished", toolCallId: "c1", status: "ok", summary: "browser: launch (1 picture)", images: [picture] },
  );
  assert.deepEqual(call(request.feed[0]).images, [picture]);
});
