// What runs without a question, and who serves models: as the settings and the schema have it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { complaint, run } from "../../src/cli.ts";
import { PROVIDERS } from "../../src/providers.ts";
import { autoApproved, autoApproveOf, withAutoApprove } from "../../src/settings.ts";

test("the editor's settings go on top of config.yaml, key by key", () => {
  const usual = { read: true, write: false, execute: false, mcp: false, delegate: true };
  assert.deepEqual(autoApproved(), usual);
  assert.deepEqual(autoApproved(undefined, null, "no", {}), usual);
  assert.deepEqual(autoApproved({ write: true, execute: { mode: "confined" } }, { read: false }), { ...usual, write: true, execute: true, read: false });
  assert.deepEqual(autoApproved({ execute: { mode: "confined" } }, { execute: { mode: "rules" } }), usual);
  assert.deepEqual(autoApproved({ execute: { mode: "confined" } }, { execute: { allow: [["make"]] } }).execute, true);
});

test("a switch changes its own key and nothing else", () => {
  assert.deepEqual(withAutoApprove(undefined, "write", true), { write: true });
  const own = { read: false, execute: { allow: [["make"]], deny: [["rm"]] } };
  assert.deepEqual(withAutoApprove(own, "execute", true), { read: false, execute: { allow: [["make"]], deny: [["rm"]], mode: "confined" } });
  assert.deepEqual(withAutoApprove(own, "execute", false), { read: false, execute: { allow: [["make"]], deny: [["rm"]], mode: "rules" } });
  assert.deepEqual(own, { read: false, execute: { allow: [["make"]], deny: [["rm"]] } });
});

test("config.yaml is read as the server explains it", async () => {
  const explained = JSON.stringify({ settings: [{ key: "autoApprove.write", value: true }, { key: "autoApprove.execute.mode", value: "confined" }, { key: "sandbox.level", value: "best" }] });
  assert.deepEqual(autoApproved(autoApproveOf(explained)), { read: true, write: true, execute: true, mcp: false, delegate: true });
  assert.equal(autoApproveOf("no JSON"), undefined);
  assert.equal(autoApproveOf("{}"), undefined);
});

test("the setup offers the providers of the settings, each with its key", () => {
  const schema = JSON.parse(readFileSync(new URL("../../../../schemas/settings.json", import.meta.url), "utf8")) as { $defs: Record<string, { oneOf?: { const: string }[] }> };
  const known = schema.$defs["Provider"]?.oneOf?.map((one) => one.const).filter((id) => id !== "scripted");
  assert.deepEqual(PROVIDERS.map((one) => one.id).toSorted(), known?.toSorted());
  // The table that users read.
  const docs = readFileSync(new URL("../../../../docs/src/models.md", import.meta.url), "utf8");
  for (const { id, key } of PROVIDERS) {
    const row = docs.split("\n").find((line) => line.startsWith(`| \`${id}\` |`)) ?? "";
    assert.ok(row.endsWith(key === undefined ? "| none |" : `| \`${key}\` |`), `${id}: ${row}`);
  }
});

test("a program is run to its end, and its last line is the complaint", async () => {
  const ran = await run(process.execPath, ["-e", "process.stdin.on('data', (d) => process.stdout.write(process.env.GIVEN + d)); process.stdin.on('end', () => { console.error('first\\nerror: it is broken'); process.exitCode = 3; })"], { GIVEN: "x" }, { input: ["a", "b"] });
  assert.deepEqual({ ...ran, complaint: complaint(ran) }, { code: 3, stdout: "xa\nb\n", stderr: "first\nerror: it is broken\n", complaint: "it is broken" });
  await assert.rejects(run("/nowhere/at/all", [], {}));
});
