// What a model writes as it is shown: safe, and in words.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { changedLines, parseDiff } from "../../src/webview/diff.ts";
import { highlight } from "../../src/webview/highlight.ts";
import { found } from "../../src/webview/history.ts";
import { fileLink, toHtml } from "../../src/webview/markdown.ts";
import { count, cost, describe, endOf, isDiff, modelFacts, ranked, when } from "../../src/words.ts";
import type { HistoryItem } from "../../src/protocol.ts";
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
  assert.match(toHtml("```sh\necho <hi>\n```"), /<pre tabindex="0"><code><span class="tok-keyword">echo<\/span> &lt;hi&gt;/);
  assert.match(toHtml("    indented"), /<pre tabindex="0"><code>indented/);
  assert.match(toHtml("| a |\n|---|\n| b |"), /<div class="table" tabindex="0"><table>/);
});

test("files that are named as code are links, and nothing else is", () => {
  assert.match(toHtml("see `shop/cart.py:4`"), /<a href="#" data-href="shop\/cart\.py:4" title="Open shop\/cart\.py:4"><code>shop\/cart\.py:4<\/code><\/a>/);
  assert.equal(fileLink("src/a b.ts"), undefined);
  assert.equal(fileLink("README.md:3:7"), "README.md:3");
  assert.equal(fileLink("./x/y.rs:10-12"), "./x/y.rs:10");
  for (const text of ["array.length", "v1.2.3", "make all", "https://a.b/c.d", "e.g", "<img src=x.y>", '"x.js"']) {
    assert.equal(fileLink(text), undefined, text);
  }
  assert.doesNotMatch(toHtml("[`a.ts`](https://example.org)"), /data-href="a\.ts"/);
});

test("code is coloured by its language, and stays what it is", () => {
  const plain = (html: string): string => html.replace(/<[^>]*>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  const samples: Record<string, string> = {
    python: 'def f(x: int) -> str:  # "why"\n    return f"{x}" if x < 3 else \'no\'\n',
    ts: "const a = `x ${1}`; // done\n/* open",
    rust: "fn main<'a>(x: &'a str) { println!(\"{}\", 0xff_u8); }",
    sh: "for x in a#b; do echo \"$x\" # c\ndone",
    diff: "-old <a>\n+new & \"b\"\n same",
    sql: "SELECT * FROM t -- all\nWHERE a = 'x'",
    unknown: "<script>alert(1)</script>",
  };
  for (const [language, code] of Object.entries(samples)) assert.equal(plain(highlight(code, language)), code, language);
  assert.equal(highlight("return 1 # no", "py"), '<span class="tok-keyword">return</span> <span class="tok-number">1</span> <span class="tok-comment"># no</span>');
  for (const unknown of ["brainfuck", "constructor", "__proto__", "toString", ""]) assert.equal(highlight("<b> if", unknown), "&lt;b&gt; if", unknown);
  assert.equal(highlight("if ".repeat(20_000), "c"), "if ".repeat(20_000), "very long code stays plain");
});

test("a diff is read by files and hunks, whatever its lines look like", () => {
  const text = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new\n same\n@@ -9 +9,2 @@ f\n-a\n+b\n+c\n--- /dev/null\n+++ b/n.md\n@@ -0,0 +1 @@\n+# N\n\\ No newline at end of file\n";
  const files = parseDiff(text);
  assert.deepEqual(files.map(({ path, hunks }) => [path, hunks.map(({ line, lines }) => [line, lines])]), [
    ["x.sql", [[1, ["--- old comment", "+++ new", " same"]], [9, ["-a", "+b", "+c"]]]],
    ["n.md", [[1, ["+# N", "\\ No newline at end of file"]]]],
  ]);
  assert.deepEqual(changedLines(files), { added: 4, removed: 2 });
});

function item(text: string, more: Partial<CallItem> = {}): CallItem {
  return {
    kind: "call", key: "k", taskId: "t", at: 0, text, ask: undefined, streaming: false, callId: undefined,
    running: undefined, output: { text: "", base: 0, length: 0 }, status: undefined, summary: "", exitCode: undefined, images: [], approvals: [], ...more,
  };
}

test("calls are described in words", () => {
  assert.deepEqual(describe(item('{"tool":"readFile","path":"a.ts","batchFiles":[{"path":"a.ts"}]}')), { doing: "Read", subject: "a.ts" });
  assert.deepEqual(describe(item('{"tool":"readFile","path":"a","batchFiles":[{},{}]}')), { doing: "Read", subject: "2 files" });
  assert.deepEqual(describe(item('{"tool":"browserAction","action":"click","ref":"e3"}')), { doing: "Browser", subject: "click e3" });
  assert.deepEqual(describe(item('{"tool":"browserAction","action":"close"}')), { doing: "Browser", subject: "close" });
  assert.deepEqual(describe(item("make", { ask: "command" })), { doing: "Run", subject: "make" });
  const call = '{"type":"use_mcp_tool","serverName":"notes","toolName":"add","arguments":"{}"}';
  assert.deepEqual(describe(item(call, { ask: "use_mcp_server" })), { doing: "Call", subject: "notes/add" });
  assert.deepEqual(describe(item("write_to_file\na.md\n# x", { streaming: true })), { doing: "write to file", subject: "a.md" });
  assert.deepEqual(describe(item('{"tool":"some_new_tool"}')), { doing: "some new tool", subject: "" });
  assert.deepEqual(describe(item('{"tool":"constructor","error":"no such tool"}')), { doing: "constructor", subject: "no such tool" });
  assert.deepEqual(describe(item("not json")), { doing: "", subject: "" });
});

test("a call of every tool is described in words", () => {
  interface Call {
    readonly tool: string;
    readonly shown: { readonly command?: string; readonly tool?: object; readonly server?: object };
    readonly words: string;
  }
  const calls = JSON.parse(readFileSync(new URL("../../../../tests/fixtures/calls.json", import.meta.url), "utf8")) as readonly Call[];
  for (const { tool, shown, words } of calls) {
    const ask = shown.command !== undefined ? "command" : shown.server !== undefined ? "use_mcp_server" : undefined;
    const { doing, subject } = describe(item(shown.command ?? JSON.stringify(shown.tool ?? shown.server), { ask }));
    assert.equal(`${doing} ${subject}`.trim(), words, tool);
  }
});

test("a command that failed gets no tick", () => {
  assert.deepEqual(endOf("ok", 3), { sign: "!", word: "failed", kind: "exited" });
  assert.equal(endOf("ok", 0).sign, "✓");
  assert.equal(endOf("ok", undefined).sign, "✓");
  assert.equal(endOf("interrupted", 1).word, "interrupted");
});

test("numbers are told as people say them", () => {
  assert.equal(cost(0, 0), "");
  assert.equal(cost(1200, 0.0123), "1200 tokens · $0.0123");
  assert.equal(cost(45_600, 1.5), "46k tokens · $1.50");
  assert.equal(when(0, 30_000), "1 min ago");
  assert.equal(when(0, 3 * 3_600_000), "3 h ago");
  assert.ok(isDiff("--- a/x\n+++ b/x") && !isDiff("make all"));
});

test("a model's facts are told in a line", () => {
  assert.equal(modelFacts({ contextWindow: 200_000, pricePerMillion: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }, images: true }), "200k context · $3 in, $15 out per million tokens · images");
  assert.equal(modelFacts({ pricePerMillion: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }), "free");
  assert.equal(modelFacts({}), "");
  assert.deepEqual([999, 45_600, 1_000_000, 1_048_576].map(count), ["999", "46k", "1M", "1M"]);
});

test("the history is searched by words and states", () => {
  const item = (title: string, mode: string, state: HistoryItem["state"]): HistoryItem => ({
    taskId: title, urid: `20260101-${title}`, title, mode, state, createdAt: 0, updatedAt: 0, usage: {}, seq: 1,
  });
  const all = [item("Fix the cart", "code", "completed"), item("Describe the cart", "architect", "failed"), item("Greet", "code", "interrupted")];
  const titles = (search: string, filter = "all"): string[] => found(all, search, filter).map((one) => one.title);
  assert.deepEqual(titles(""), ["Fix the cart", "Describe the cart", "Greet"]);
  assert.deepEqual(titles("CART code"), ["Fix the cart"]);
  assert.deepEqual(titles("", "failed"), ["Describe the cart"]);
  assert.deepEqual(titles("cart", "open"), []);
});

test("open files and names that begin as asked are offered first", () => {
  const paths = ["shop/shopping_cart.py", "tests/test_cart.py", "shop/cart.py", "docs/cart.md", "cart.cfg"];
  assert.deepEqual(ranked(paths, "CART", new Set(["tests/test_cart.py"])), ["tests/test_cart.py", "cart.cfg", "docs/cart.md", "shop/cart.py", "shop/shopping_cart.py"]);
});
