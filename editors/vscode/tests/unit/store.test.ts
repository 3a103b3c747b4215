// The requests that are followed: what is told of them, and what is asked for.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./editor.ts";
import type { Event, EventParams } from "../../src/protocol.ts";

const { Store } = await import("../../src/store.ts");

const created: Event = { type: "task.created", urid: "u", mode: "code", title: "Do it" };
const numbered = (rootId: string, seq: number, event: Event = created): EventParams => ({ rootId, taskId: rootId, at: 1, seq, event });

test("what happens is told for every request, once, and apart for the one that is shown", async () => {
  const store = new Store(async () => ({ seq: 0 }));
  const [taken, applied]: [EventParams[], EventParams[]] = [[], []];
  store.onDidTake((params) => taken.push(params));
  store.onDidApply((params) => applied.push(params));
  await store.show("shown");
  const [own, other] = [numbered("shown", 1), numbered("other", 1)];
  // What is known and what has others missing before it is not applied.
  for (const params of [own, other, own, other, numbered("shown", 5)]) store.take(params);
  assert.deepEqual(taken, [own, other]);
  assert.deepEqual(applied, [own]);
});
