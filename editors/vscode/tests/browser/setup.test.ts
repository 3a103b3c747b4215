// From an editor without any model to a task that is done: against a server on this machine that answers as Ollama does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";

/** Where Ollama listens; the only address at which it is looked for. */
const PORT = 11434;

function answer(prompt: string): string {
  const piece = (delta: object, finish: string | null = null): string => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const done = { index: 0, id: "call_1", type: "function", function: { name: "attempt_completion", arguments: JSON.stringify({ result: "It greets." }) } };
  const body = prompt.includes("attempt_completion") ? piece({ tool_calls: [done] }) + piece({}, "tool_calls") : piece({ content: "Yes" }) + piece({}, "stop");
  return `${body}data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1 } })}\n\ndata: [DONE]\n\n`;
}

/** A server as Ollama's; waits while another test has its address. */
async function ollama(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      if (request.url?.endsWith("/models")) {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ object: "list", data: [{ id: "broken:1b", object: "model" }, { id: "small:1b", object: "model" }] }));
      } else if (body.includes("broken:1b")) {
        response.writeHead(404, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { message: "model 'broken:1b' not found", type: "not_found_error" } }));
      } else {
        response.setHeader("content-type", "text/event-stream");
        response.end(answer(body));
      }
    });
  });
  await until(
    () => new Promise<boolean>((resolve, reject) => {
      server.once("error", reject);
      server.listen(PORT, "127.0.0.1", () => resolve(true));
    }),
    `port ${PORT} is free`,
    4 * DEADLINE,
  );
  return server;
}

test("from no model at all to a finished task, in the chat and its dialogues", async () => {
  const server = await ollama();
  const editor = await Editor.start({ settings: { "roo.profile": undefined, "roo.profiles": undefined, "roo.mode": "code" } });
  try {
    await editor.command("Roo: New Task…");
    const chat = await editor.chat();
    const config = (): string => readFileSync(join(editor.home, "config/roo-lsp/config.yaml"), "utf8");
    const rows = editor.page.locator(".quick-input-list .monaco-list-row");
    // The chat says so in place; and whoever starts all the same is led there, and keeps the text.
    await chat.locator("#no-model button").waitFor({ timeout: DEADLINE });
    await chat.locator("#prompt").fill("Say what greeting.sh does");
    await chat.locator("#prompt").press("Enter");

    // What runs on this machine comes first.
    await rows.first().filter({ hasText: "Ollama" }).filter({ hasText: "running" }).waitFor({ timeout: DEADLINE });
    await editor.answerInput("Ollama");
    await rows.filter({ hasText: "broken:1b" }).waitFor({ timeout: DEADLINE });
    await editor.answerInput("broken:1b");
    const failed = editor.page.locator(".monaco-dialog-box", { hasText: "Nothing was saved" });
    await failed.waitFor({ timeout: DEADLINE });
    assert.match((await failed.textContent()) ?? "", /broken:1b: .*not found/);
    assert.throws(config, "nothing is stored that doesn't work");

    await failed.locator(".monaco-button", { hasText: "Try Again" }).click();
    await rows.filter({ hasText: "small:1b" }).waitFor({ timeout: DEADLINE });
    await editor.answerInput("small:1b");
    await until(() => config().includes("provider: ollama"), "the profile is saved");
    assert.match(config(), /model: .*small:1b/);

    // The server has it without a word of the user.
    await until(async () => (await chat.locator("#model").textContent()) === "small:1b", "the model is there");
    assert.equal(await chat.locator("#no-model").count(), 0);
    assert.equal(await chat.locator("#prompt").inputValue(), "Say what greeting.sh does");
    await chat.locator("#prompt").press("Enter");
    await chat.locator(".said.completion_result", { hasText: "It greets." }).waitFor({ timeout: DEADLINE });
  } catch (error) {
    throw await editor.failed("setup", error);
  } finally {
    await editor.stop();
    server.closeAllConnections();
    server.close();
  }
});
