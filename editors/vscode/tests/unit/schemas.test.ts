// The schemas of configuration files: they find what the server finds in the same text. What a schema can't say (patterns,
// duplicates, what has no effect) only the server tells.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Ajv } from "ajv";

const root = new URL("../../../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");
const server = process.env["ROO_LSP"] ?? "";
const home = mkdtempSync(join(tmpdir(), "roo-schemas-"));
after(() => rmSync(home, { recursive: true, force: true }));

type Finds = "nothing" | "warning" | "error";

/** What the server finds in a text, and its words. */
function served(kind: "modes" | "hooks", text: string): { finds: Finds; said: string } {
  const file = join(home, `${kind}.json`);
  writeFileSync(file, text);
  const env = { PATH: process.env["PATH"] ?? "", HOME: home };
  const { status, stdout, stderr } = spawnSync(server, [kind, "check", file], { encoding: "utf8", env, cwd: home });
  const said = stdout + stderr;
  const finds = /^error: /m.test(said) ? "error" : /^warning: /m.test(said) ? "warning" : "nothing";
  assert.equal(status, finds === "error" ? 1 : 0, said);
  return { finds, said };
}

/** What a schema says of a text. */
function accepts(kind: "modes" | "hooks"): (value: unknown) => boolean {
  // A type beside others may have words that are for those alone.
  const ajv = new Ajv({ strict: true, allowUnionTypes: true, strictTypes: false, strictTuples: false });
  // VS Code's own: accepted, and not offered.
  ajv.addKeyword("doNotSuggest");
  const validate = ajv.compile(JSON.parse(read(`schemas/${kind}.json`)) as object);
  return (value) => validate(value) === true;
}

/** A text, what the server finds in it, and whether only the server can. */
type Row = readonly [value: unknown, finds: Finds, only?: "the server"];

function agree(kind: "modes" | "hooks", rows: readonly Row[]): void {
  const fits = accepts(kind);
  for (const [value, finds, only] of rows) {
    const text = JSON.stringify(value);
    const heard = served(kind, text);
    assert.equal(heard.finds, finds, `${text}\n${heard.said}`);
    assert.equal(fits(value), finds === "nothing" || only !== undefined, `the schema, of ${text}`);
  }
}

const mode = (more: object): object => ({ customModes: [{ slug: "docs", name: "📝 Writer", roleDefinition: "You write.", groups: ["read"], ...more }] });

test("modes: the schema and the server agree", () => {
  agree("modes", [
    [mode({}), "nothing"],
    [null, "nothing"],
    [{ customModes: [] }, "nothing"],
    [{ customModes: null }, "nothing"],
    [mode({ groups: [] }), "nothing"],
    [mode({ groups: ["read", ["edit", { fileRegex: "\\.md$", description: "Markdown files" }], "command", "browser", "mcp", "modes"] }), "nothing"],
    [mode({ groups: [["edit"]] }), "nothing"],
    [mode({ groups: [["edit", { fileRegex: null }]] }), "nothing"],
    [mode({ whenToUse: "For manuals.", description: "Writes", customInstructions: "Be short.", canDelegateTo: ["ask"] }), "nothing"],
    [mode({ whenToUse: null, canDelegateTo: null }), "nothing"],
    [mode({ slug: " docs " }), "nothing"],
    [mode({ source: "project", rulesFiles: [], iconName: "codicon-book" }), "nothing"],

    [[], "error"],
    [{}, "error"],
    [{ customModes: {} }, "error"],
    [{ customModes: ["docs"] }, "error"],
    [mode({ slug: undefined }), "error"],
    [mode({ slug: "my docs" }), "error"],
    [mode({ slug: 7 }), "error"],
    [mode({ name: "  " }), "error"],
    [mode({ roleDefinition: null }), "error"],
    [mode({ roleDefinition: "" }), "error"],
    [mode({ customInstructions: ["Be short."] }), "error"],
    [mode({ groups: undefined }), "error"],
    [mode({ groups: "read" }), "error"],
    [mode({ groups: ["write"] }), "error"],
    [mode({ groups: [["edit", { fileRegex: 7 }]] }), "error"],
    [mode({ groups: [["edit", "\\.md$"]] }), "error"],
    [mode({ groups: [["edit", {}, {}]] }), "error"],
    [mode({ canDelegateTo: "ask" }), "error"],
    [mode({ canDelegateTo: ["two words"] }), "error"],
    [{ ...mode({}), modes: [] }, "warning"],
    [mode({ tools: ["read"] }), "warning"],
    [mode({ groups: [["edit", { filter: "x" }]] }), "warning"],

    [mode({ groups: [["edit", { fileRegex: "(" }]] }), "error", "the server"],
    [mode({ groups: ["read", "read"] }), "error", "the server"],
    [mode({ groups: [["read", { fileRegex: "x" }]] }), "warning", "the server"],
    [mode({ name: `${"x".repeat(101)}` }), "error", "the server"],
  ]);
});

const hook = (more: object, event = "PreToolUse"): object => ({ hooks: { [event]: [{ matcher: "Bash", hooks: [{ type: "command", command: "true", ...more }] }] } });

test("hooks: the schema and the server agree", () => {
  agree("hooks", [
    [hook({}), "nothing"],
    [{ hooks: {} }, "nothing"],
    [{ hooks: null }, "nothing"],
    [{ $schema: "x", description: "x", disableAllHooks: false, hooks: { Stop: [{ hooks: [] }] } }, "nothing"],
    [hook({ args: ["a", "b"], timeout: 0.5, if: "Bash(git *)", shell: "bash", statusMessage: "x", once: true, description: "x" }), "nothing"],
    [hook({ args: null, timeout: null, if: null, async: false, shell: null, roo: null }), "nothing"],
    [hook({ roo: { failClosed: true } }), "nothing"],
    [hook({ roo: { sandbox: true } }), "nothing"],
    [{ hooks: { SessionStart: [{ matcher: null, hooks: [] }] } }, "nothing"],

    [[], "error"],
    [{}, "error"],
    [{ hooks: [] }, "error"],
    [{ hooks: {}, disableAllHooks: "yes" }, "error"],
    [{ hooks: { preToolUse: [] } }, "error"],
    [{ hooks: { Stop: {} } }, "error"],
    [{ hooks: { Stop: [{ matcher: "x" }] } }, "error"],
    [{ hooks: { Stop: [{ hooks: {} }] } }, "error"],
    [{ hooks: { PreToolUse: [{ matcher: 7, hooks: [] }] } }, "error"],
    [hook({ type: "prompt" }), "error"],
    [hook({ type: undefined }), "error"],
    [hook({ command: undefined }), "error"],
    [hook({ command: " " }), "error"],
    [hook({ command: ["true"] }), "error"],
    [hook({ args: "a" }), "error"],
    [hook({ args: [1] }), "error"],
    [hook({ timeout: 0 }), "error"],
    [hook({ timeout: 86_401 }), "error"],
    [hook({ timeout: "1" }), "error"],
    [hook({ async: "yes" }), "error"],
    [hook({ shell: "zsh" }), "error"],
    [hook({ roo: true }), "error"],
    [hook({ roo: { failClosed: "yes" } }), "error"],
    [hook({ roo: { sandbox: "no" } }), "error"],
    [{ hooks: {}, version: 1 }, "warning"],
    [{ hooks: { Setup: [] } }, "warning"],
    [{ hooks: { Stop: [{ hooks: [], tools: [] }] } }, "warning"],
    [hook({ url: "x" }), "warning"],
    [hook({ roo: { closed: true } }), "warning"],

    [{ hooks: { PreToolUse: [{ matcher: "(", hooks: [] }] } }, "error", "the server"],
    [hook({ async: true }), "warning", "the server"],
    [{ hooks: {}, disableAllHooks: true }, "warning", "the server"],
  ]);
});
