// The recorded requests in tests/fixtures/events: the reducer sees in them what every other front end sees.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import type { EventParams } from "../../src/protocol.ts";
import { apply, root, total, unknownRequest, waiting, type Item, type Request, type Task } from "../../src/state.ts";

interface Checkpoint {
  readonly after: number;
  readonly view: unknown;
}

function read(name: string): string {
  return readFileSync(new URL(`../../../../tests/fixtures/events/${name}`, import.meta.url), "utf8");
}

/** What the recordings call a message: no call, no note. */
function messages(items: readonly Item[]): unknown[] {
  return items.flatMap((item) =>
    item.kind === "message"
      ? [{ id: item.key.slice(item.taskId.length + 1), say: item.say, text: item.text, ...(item.streaming && { streams: true }) }]
      : [],
  );
}

/** The calls that did something, or were kept from it. */
function calls(items: readonly Item[]): unknown[] {
  return items.flatMap((item) => {
    if (item.kind !== "call" || (!item.running && (item.status === undefined || item.status === "ok"))) return [];
    return [{ id: item.callId, ...item.running, ...(item.status && { status: item.status, summary: item.summary, ...(item.exitCode !== undefined && { exitCode: item.exitCode }) }) }];
  });
}

function approvals(items: readonly Item[]): unknown[] {
  return items.flatMap((item) =>
    item.kind !== "call"
      ? []
      : item.approvals.map(({ approvalId, title, options, answer }) => {
          const kind = options.find((option) => answer?.kind === "answered" && option.name === answer.name)?.kind;
          const allowed = kind === undefined ? null : kind.startsWith("allow");
          return { id: approvalId, title, ...(answer && { answer: { by: answer.by, allowed } }) };
        }),
  );
}

function seenOf(request: Request, task: Task): unknown {
  const items = request.feed.filter((item) => item.taskId === task.id);
  const { tokensIn = 0, tokensOut = 0, cacheReads = 0, cacheWrites = 0, costUsd = 0 } = task.usage;
  return {
    id: task.id,
    parentId: task.parentId ?? null,
    mode: task.mode,
    profile: task.profile ?? null,
    title: task.title,
    state: task.state,
    usage: { tokensIn, tokensOut, cacheReads, cacheWrites, costUsd },
    todo: task.todo.map(({ content, status }) => ({ content, status })),
    queue: task.queue.map((item) => item.text),
    messages: messages(items),
    calls: calls(items),
    approvals: approvals(items),
  };
}

/** What is to be seen of a request, in the words of the recordings. */
function seen(request: Request): unknown {
  return {
    title: root(request)?.title ?? null,
    tasks: Object.values(request.tasks).map((task) => seenOf(request, task)),
    tree: request.nodes.map(({ id, parentId, mode, title, state, tokens, costUsd }) => ({
      id,
      parentId: parentId ?? null,
      mode,
      title,
      state,
      tokens,
      costUsd,
    })),
    total: total(request),
    waiting: waiting(request).map(({ approval, question }) => approval?.approvalId ?? question?.questionId),
    commands: request.commands,
  };
}

const recordings = readdirSync(new URL("../../../../tests/fixtures/events/", import.meta.url)).flatMap((file) =>
  file.endsWith(".jsonl") ? [file.slice(0, -".jsonl".length)] : [],
);
assert.ok(recordings.length > 1);

for (const name of recordings) {
  const events = read(`${name}.jsonl`).trimEnd().split("\n").map((line) => JSON.parse(line) as EventParams);
  const checkpoints = JSON.parse(read(`${name}.view.json`)) as Checkpoint[];

  test(`the recorded request ${name} is seen as by every front end`, () => {
    assert.ok(checkpoints.length > 0);
    let request = unknownRequest("request");
    let applied = 0;
    for (const { after, view } of checkpoints) {
      for (; applied < after; applied += 1) {
        const next = apply(request, events[applied]!);
        assert.ok(!next.gap, `line ${applied + 1}`);
        request = next.request;
      }
      assert.deepEqual(seen(request), view, `after line ${after}`);
    }
    assert.equal(applied, events.length, "all of it is looked at");
  });
}
