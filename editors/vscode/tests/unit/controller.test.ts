// What the controller does about what happens in requests.
import assert from "node:assert/strict";
import { test } from "node:test";
import { notifications } from "./editor.ts";
import type { Parts, Server } from "../../src/controller.ts";
import type { ToPage } from "../../src/chat/messages.ts";
import type { Event } from "../../src/protocol.ts";

const { Controller } = await import("../../src/controller.ts");
const { Decisions } = await import("../../src/decisions.ts");
const { Startup } = await import("../../src/startup.ts");
const { Store } = await import("../../src/store.ts");

/** A server that is asked these methods and answers nothing of interest. */
function server(asked: string[]): Server {
  const request = async (method: string): Promise<unknown> => {
    asked.push(method);
    return { accepted: true, by: "vscode" };
  };
  return { request: request as Server["request"], notify: () => {}, knows: () => false, isRunning: true, isTyped: true, uri: String, document: never };
}

const never = (() => ({ dispose() {} })) as never;

/** A controller, and what it did: the approvals whose reviews and previews it closed, and what it told the page. */
function begun(change: Partial<Parts> = {}) {
  const store = new Store(async () => ({ seq: 0 }));
  const decisions = new Decisions();
  const done = { reviews: [] as string[], previews: [] as string[], posted: [] as ToPage[] };
  const parts: Parts = {
    context: { workspaceState: { keys: () => [], get: () => undefined, update: async () => {} } as Parts["context"]["workspaceState"] },
    store,
    decisions,
    startup: new Startup(),
    previews: { close: async (id) => void done.previews.push(id), compare: async () => {} },
    copies: { open: async () => {} },
    review: { open: async () => {}, close: (id) => void done.reviews.push(id), onDidWantEdit: never },
    connection: () => undefined,
    log: { warn: () => {} },
    editor: { openLink: async () => {}, insert: async () => {}, files: async () => [] },
    setUpModel: async () => undefined,
    restart: async () => {},
    ...change,
  };
  const controller = new Controller(parts);
  controller.bind({ post: (message) => void done.posted.push(message), isVisible: true, badge: () => {}, onDidHide: never });
  const take = (rootId: string, ...events: Event[]): void =>
    events.forEach((event, index) => store.take({ rootId, taskId: rootId, at: 1, seq: index + 1, event }));
  return { controller, store, decisions, done, take };
}

const created: Event = { type: "task.created", urid: "u", mode: "code", title: "Do it" };
const asked = (digest: string): Event => ({
  type: "approval.requested",
  approvalId: "other.a1",
  toolCallId: "c1",
  digest,
  title: "Create a.md",
  subject: "",
  reason: "it is new",
  options: [],
});

test("the review of an approval ends with its answer, whichever request is shown", async () => {
  const { store, decisions, done, take } = begun();
  await store.show("shown");
  take("shown", created);
  decisions.set("other.a1", [{ hunkId: "h1", digest: "d", decision: "refuse" }], "diff");
  take("other", created, asked("d"));
  assert.equal(decisions.of("other.a1").length, 1);
  take("other", created, asked("d"), { type: "approval.resolved", approvalId: "other.a1", by: "helix", optionId: "yes" });
  assert.deepEqual([done.reviews, done.previews, decisions.of("other.a1")], [["other.a1"], ["other.a1"], []]);
  const told = done.posted.flatMap((message) => (message.type === "event" ? [message.params.rootId] : []));
  assert.deepEqual(new Set(told), new Set(["shown"]), "the page is told of its own request alone");
});

test("an approval that is asked again about something else is reviewed again", () => {
  const { decisions, done, take } = begun();
  decisions.set("other.a1", [{ hunkId: "h1", digest: "d", decision: "refuse" }], "diff");
  take("other", created, asked("d"), { type: "task.state", state: "interrupted" }, asked("d"));
  assert.equal(decisions.of("other.a1").length, 1);
  take("other", created, asked("d"), { type: "task.state", state: "interrupted" }, asked("d"), asked("e"));
  assert.deepEqual([done.reviews, decisions.of("other.a1")], [["other.a1"], []]);
});

test("what is too long to approve from its summary is opened again when it is asked again about something else", async () => {
  const methods: string[] = [];
  const opened: string[] = [];
  const review = { open: async ({ digest }: { digest: string }) => void opened.push(digest), close: () => {}, onDidWantEdit: never };
  const { controller, take } = begun({ connection: () => server(methods), review });
  const long = (digest: string): Event => ({ ...asked(digest), mustOpen: true, options: [{ id: "yes", name: "Allow", kind: "allow_once" }] }) as Event;
  take("other", created, long("d"));
  await controller.decide("other.a1", "allow_once");
  take("other", created, long("d"), { type: "task.state", state: "interrupted" }, long("e"));
  await controller.decide("other.a1", "allow_once");
  assert.deepEqual([opened, methods], [["d", "e"], []], "both were opened, and none was answered");
  await controller.decide("other.a1", "allow_once");
  assert.deepEqual(methods, ["roo/approval/respond"]);
});

test("a task that is driven elsewhere can be read, and who drives it isn't claimed to be known", async () => {
  const held = Object.assign(new Error("it is driven elsewhere"), { data: { kind: "heldElsewhere" } });
  const store = new Store(async () => Promise.reject(held));
  const { controller } = begun({ store, connection: () => server([]) });
  await controller.respond({ type: "open", taskId: "t", title: "Write" });
  assert.equal(notifications.pop(), "Roo: another window or daemon works on the task “Write”. You can read it here, and start another one.");
  assert.deepEqual([...store.all], []);
});

test("other folders restart the server as soon as no task runs, and a user who has to wait is told", async () => {
  notifications.length = 0;
  let restarts = 0;
  const { controller, done, take } = begun({ connection: () => server([]), restart: async () => void (restarts += 1) });
  await controller.foldersChanged();
  assert.deepEqual([restarts, notifications.splice(0)], [1, []], "nothing runs");
  take("other", created);
  await controller.foldersChanged();
  assert.equal(restarts, 1);
  assert.deepEqual(notifications.splice(0), ["Roo: agents work in the changed folders when the server restarts, as soon as no task runs."]);
  assert.ok(done.posted.some((message) => message.type === "context" && message.context.restartPending), "the page offers it at once");
  take("other", created, { type: "task.state", state: "completed" });
  assert.equal(restarts, 2);
});

test("a task of a code action begins with the mode and the profile that were chosen in the chat, where it names none", async () => {
  const started: unknown[] = [];
  const answers: Record<string, unknown> = {
    "roo/mode/list": { modes: [{ slug: "code" }, { slug: "architect" }], defaultMode: "code" },
    "roo/profile/list": { profiles: [{ name: "cloud", isDefault: true }, { name: "local" }] },
    "roo/command/list": { commands: [] },
    "roo/trust/get": { trusted: true, pendingApprovals: [] },
    "roo/task/start": { taskId: "t" },
  };
  const request = async (method: string, params: unknown): Promise<unknown> => {
    if (method === "roo/task/start") started.push(params);
    return answers[method];
  };
  const chosen: Record<string, string> = { "roo.chosenMode": "architect", "roo.chosenProfile": "local" };
  const workspaceState = { keys: () => [], get: (key: string) => chosen[key], update: async () => {} } as unknown as Parts["context"]["workspaceState"];
  const { controller, store } = begun({ context: { workspaceState }, connection: () => ({ ...server([]), request: request as Server["request"] }) });
  await controller.refresh();
  const context = [{ uri: "file:///a.md" }];
  assert.deepEqual(await controller.startAs({ prompt: "Fix it", context }), { taskId: "t" });
  assert.equal(store.shown?.rootId, "t");
  await controller.startAs({ prompt: "Explain it", mode: "ask" });
  await controller.startAs({ prompt: "Fix it", profile: "cloud" });
  assert.deepEqual(started, [
    { prompt: "Fix it", context, mode: "architect", profile: "local" },
    { prompt: "Explain it", mode: "ask", profile: "local" },
    { prompt: "Fix it", mode: "architect", profile: "cloud" },
  ]);
});
