// What commands say to the user.
import assert from "node:assert/strict";
import { test } from "node:test";
import { notifications, registered } from "./editor.ts";
import type { Hands } from "../../src/commands.ts";

const { registerCommands } = await import("../../src/commands.ts");

test("whoever changes a key is told what becomes of running tasks, which go on in the earlier daemon where there is one", async () => {
  const said: (string | undefined)[] = [];
  for (const sharesDaemon of [false, true]) {
    registerCommands({ keys: { set: async () => true, remove: async () => true }, connection: () => undefined, sharesDaemon: () => sharesDaemon } as unknown as Hands);
    for (const name of ["roo.setApiKey", "roo.removeApiKey"]) {
      await registered.get(name)?.();
      said.push(notifications.pop());
    }
  }
  const begin = "The change takes effect when the server restarts. ";
  const own = `${begin}Running tasks can be resumed.`;
  const shared = `${begin}Running tasks go on in the earlier daemon, where “roo-lsp attach” reaches them. After “roo-lsp daemon stop” they can be resumed here.`;
  assert.deepEqual(said, [own, own, shared, shared]);
});

/** Registers the commands; what they ask of the chat and of the server. */
function connected(): unknown[] {
  const done: unknown[] = [];
  const controller = { startAs: async (params: unknown) => void done.push(["chat", params]), waiting: [{ approval: { approvalId: "first", reviewable: true } }] };
  const connection = { isRunning: true, isTyped: true, execute: async (name: string, argument: unknown) => void done.push([name, argument]) };
  registerCommands({ controller, connection: () => connection, startup: { over: Promise.resolve() }, log: { error: assert.fail } } as unknown as Hands);
  return done;
}

test("a task of a code action is begun by the chat, which knows what was chosen there", async () => {
  const done = connected();
  const params = { prompt: "Fix it", context: [{ uri: "file:///a.md" }] };
  await registered.get("roo.newTask")?.(params);
  await registered.get("roo.newTask")?.("Greet");
  assert.deepEqual(done, [["chat", params], ["chat", { prompt: "Greet" }]]);
});

test("the Refactor Preview opens the approval that a code action names, and else the first", async () => {
  const done = connected();
  const named = { approvalId: "second", digest: "d" };
  await registered.get("roo.reviewInRefactorPreview")?.(named);
  await registered.get("roo.reviewInRefactorPreview")?.();
  assert.deepEqual(done, [["roo.reviewInRefactorPreview", named], ["roo.reviewInRefactorPreview", { approvalId: "first" }]]);
});
