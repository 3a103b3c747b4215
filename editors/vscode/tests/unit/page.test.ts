// What a model writes as it is shown: safe, and in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { toHtml } from "../../src/webview/markdown.ts";
import { cost, describe, isDiff, when } from "../../src/words.ts";
import type { CallItem } from "../../src/state.ts";

test("a model's text can't become markup", () => {
  const html = toHtml('<img src=x onerror=alert(1)> <script>alert(1)</script> [a](javascript:alert(1)) [c](data:text/html,x) [d](command:roo.approve) [e](vscode://x)');
  // Angle brackets, and with them attributes, come from the renderer alone.
  const elements = [...html.matchAll(/<\/?([a-z]+)[^>]*>/g)].map(([, name]) => name);
  assert.deepEqual(new Set(elements), new Set(["p"]), html);
  // A picture would be asked for; as a link it is looked at only by who wants to.
  assert.match(toHtml("![b](https://example.org/b.png)"), /^<p>!<a href="#" data-href="https:/);
});

test("links are told to the extension, not followed", () => {
  const html = toHtml("[docs](https://example.org/a) and [file](src/a%20b.ts#L3)");
  assert.match(html, /<a href="#" data-href="https:\/\/example\.org\/a" title="https:\/\/example\.org\/a">docs<\/a>/);
  assert.match(html, /data-href="src\/a%20b\.ts#L3"/);
});

test("code and tables scroll by keys", () => {
  assert.match(toHtml("```sh\necho <hi>\n```"), /<pre tabindex="0"><code class="language-sh">echo &lt;hi&gt;/);
  assert.match(toHtml("| a |\n|---|\n| b |"), /<div class="table" tabindex="0"><table>/);
});

test("calls are described in words", () => {
  const item = (text: string, more: Partial<CallItem> = {}): CallItem => ({
    kind: "call", key: "k", taskId: "t", at: 0, text, ask: undefined, streaming: false, callId: undefined,
    running: undefined, output: "", status: undefined, summary: "", approvals: [], ...more,
  });
  assert.deepEqual(describe(item('{"tool":"readFile","path":"a.ts","batchFiles":[{"path":"a.ts"}]}')), { doing: "Read", subject: "a.ts" });
  assert.deepEqual(describe(item('{"tool":"readFile","path":"a","batchFiles":[{},{}]}')), { doing: "Read", subject: "2 files" });
  assert.deepEqual(describe(item("make", { ask: "command" })), { doing: "Run", subject: "make" });
  assert.deepEqual(describe(item("write_to_file\na.md\n# x", { streaming: true })), { doing: "write to file", subject: "a.md" });
  assert.deepEqual(describe(item('{"tool":"some_new_tool"}')), { doing: "some new tool", subject: "" });
  assert.deepEqual(describe(item("not json")), { doing: "", subject: "" });
});

test("numbers are told as people say them", () => {
  assert.equal(cost(0, 0), "");
  assert.equal(cost(1200, 0.0123), "1200 tokens · $0.0123");
  assert.equal(cost(45_600, 1.5), "46k tokens · $1.50");
  assert.equal(when(0, 30_000), "1 min ago");
  assert.equal(when(0, 3 * 3_600_000), "3 h ago");
  assert.ok(isDiff("--- a/x\n+++ b/x") && !isDiff("make all"));
});
