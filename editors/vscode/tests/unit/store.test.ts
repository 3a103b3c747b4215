// The requests that are followed: what is told of them, and what is asked for.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
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

/** Lets all that waits for promises alone go on. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a request whose events have ended is attached to again behind its newest, with pauses that grow until an event comes", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const attached: number[] = [];
  let answer = async (): Promise<{ seq: number }> => ({ seq: 1 });
  const store = new Store(async (_taskId, afterSeq) => {
    attached.push(afterSeq);
    return answer();
  });
  const ended: EventParams = { rootId: "t", taskId: "t", at: 1, event: { type: "server.degraded", reason: "it can't be read", until: "attached" } };
  /** Up to which time there was no attempt, of what has ended now. */
  const pause = async (): Promise<number> => {
    const before = attached.length;
    for (let time = 100; ; time += 100) {
      mock.timers.tick(100);
      await settled();
      if (attached.length > before) return time;
    }
  };
  try {
    store.take(numbered("t", 1));
    store.take(ended);
    assert.deepEqual([...store.all][0]?.warnings, [{ reason: "it can't be read", until: "attached" }]);
    assert.equal(await pause(), 500);
    assert.deepEqual([attached, [...store.all][0]?.warnings], [[1], []], "the warning is over");
    store.take(ended);
    assert.equal(await pause(), 1000);
    answer = async () => Promise.reject(new Error("not now"));
    store.take(ended);
    assert.deepEqual([await pause(), await pause(), await pause(), await pause(), await pause()], [2000, 5000, 15_000, 60_000, 60_000]);
    answer = async () => ({ seq: 2 });
    await pause();
    store.take(numbered("t", 2, { type: "task.state", state: "running" }));
    store.take(ended);
    assert.equal(await pause(), 500, "it has brought an event");
    assert.equal(attached.at(-1), 2);
    mock.timers.tick(600_000);
    await settled();
    assert.equal(attached.length, 9, "nothing is tried where events come");
  } finally {
    store.dispose();
    mock.timers.reset();
  }
});

test("a request that is gone is not attached to again", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let attempts = 0;
  const store = new Store(async () => {
    attempts += 1;
    throw Object.assign(new Error("there is no such task"), { data: { kind: "notFound" } });
  });
  const ended = (rootId: string): EventParams => ({ rootId, taskId: rootId, at: 1, event: { type: "server.degraded", reason: "it can't be read", until: "attached" } });
  try {
    store.take(ended("t"));
    store.take(ended("forgotten"));
    store.forget("forgotten");
    for (let time = 0; time < 10; time += 1) {
      mock.timers.tick(60_000);
      await settled();
    }
    assert.equal(attempts, 1);
  } finally {
    store.dispose();
    mock.timers.reset();
  }
});
