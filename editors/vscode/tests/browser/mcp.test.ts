// The list of MCP servers: states that follow the servers, and what one offers and writes.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DEADLINE, Editor, until } from "./editor.ts";

const SERVER = `
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}},
        "tools/list": {"tools": [{"name": "book", "description": "Books a $(flame) seat.", "inputSchema": {"type": "object"}}]},
    }
    if method == "initialize":
        print("the desk is open", file=sys.stderr, flush=True)
    if method in results:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": results[method]}), flush=True)
    elif number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}}), flush=True)
`;

test("MCP servers are listed, switched off and on while the list is open, and looked into", async () => {
  const editor = await Editor.start({
    workspace: (directory) => {
      writeFileSync(join(directory, "desk.py"), SERVER);
      const config = join(directory, "../config/roo-lsp");
      mkdirSync(config, { recursive: true });
      writeFileSync(join(config, "mcp.json"), JSON.stringify({ mcpServers: { desk: { command: "python3", args: ["desk.py"] } } }));
    },
  });
  try {
    const row = editor.page.locator(".quick-input-list .monaco-list-row").first();
    const shows = (text: string): Promise<void> => row.filter({ hasText: text }).waitFor({ timeout: DEADLINE });
    await editor.command("Roo: MCP Servers…");
    await shows("desk");
    await shows("connected, 1 tool");
    const press = async (button: string): Promise<void> => {
      await row.hover();
      await row.locator(`.quick-input-list-entry-action-bar a[aria-label="${button}"]`).click({ timeout: DEADLINE });
    };
    await press("Switch Off");
    await shows("switched off");
    assert.match(readFileSync(join(editor.home, "config/roo-lsp/mcp.json"), "utf8"), /"disabled"/);
    await press("Switch On");
    await shows("connected, 1 tool");
    await editor.page.keyboard.press("Enter");
    await until(async () => {
      const text = await editor.page.locator(".quick-input-list").innerText();
      return text.includes("book") && text.includes("the desk is open");
    }, "its tools and its log");
    assert.equal(await editor.page.locator(".quick-input-list .codicon-flame").count(), 0, "what a server says is text");
    await editor.page.keyboard.press("Escape");
    assert.deepEqual(editor.foreign, []);
  } catch (error) {
    throw await editor.failed("mcp", error);
  } finally {
    await editor.stop();
  }
});
