// What runs without a question, and who serves models: as the settings and the schema have it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { complaint, run } from "../../src/cli.ts";
import { inWords, kindOf } from "../../src/failures.ts";
import type { AutoApproveItem } from "../../src/protocol.ts";
import { freeName, KEY_PLACES, keySource, PROVIDERS } from "../../src/providers.ts";
import { autoApproved, effectOf, SERVER_SETTINGS, withAutoApprove } from "../../src/settings.ts";

test("the switches show what the server says counts", () => {
  const item = (key: string, value: unknown): AutoApproveItem => ({ key, value });
  const off = { read: false, write: false, execute: false, mcp: false, delegate: false };
  assert.deepEqual(autoApproved([]), off);
  assert.deepEqual(autoApproved([item("read", true), item("write", "yes"), item("execute.mode", "rules"), item("execute.allow", [["make"]])]), { ...off, read: true });
  assert.deepEqual(autoApproved([item("mcp", true), item("delegate", true), item("execute.mode", "confined")]), { ...off, mcp: true, delegate: true, execute: true });
});

test("the server is restarted only for what it can't be told", () => {
  const of = (...sections: string[]): string | undefined => effectOf((section) => sections.some((changed) => changed === section || changed.startsWith(`${section}.`)));
  assert.equal(of("roo.server.path"), "restart");
  assert.equal(of("roo.protocol.enabled", "roo.mode"), "restart");
  for (const key of SERVER_SETTINGS) assert.equal(of(`roo.${key}`), "options", key);
  assert.equal(of("roo.autoApprove.write"), "options");
  assert.equal(of("roo.notifications", "editor.fontSize"), undefined);
});

test("every setting of the server is passed on", () => {
  const schema = JSON.parse(readFileSync(new URL("../../../../schemas/settings.json", import.meta.url), "utf8")) as { properties: Record<string, unknown> };
  // What a client tells of itself is no setting.
  const ofClients = ["codeAsk", "documentSave", "protocolVersion"];
  assert.deepEqual([...SERVER_SETTINGS].sort(), Object.keys(schema.properties).filter((key) => !ofClients.includes(key)).sort());
});

test("a switch changes its own key and nothing else", () => {
  assert.deepEqual(withAutoApprove(undefined, "write", true), { write: true });
  const own = { read: false, execute: { allow: [["make"]], deny: [["rm"]] } };
  assert.deepEqual(withAutoApprove(own, "execute", true), { read: false, execute: { allow: [["make"]], deny: [["rm"]], mode: "confined" } });
  assert.deepEqual(withAutoApprove(own, "execute", false), { read: false, execute: { allow: [["make"]], deny: [["rm"]], mode: "rules" } });
  assert.deepEqual(own, { read: false, execute: { allow: [["make"]], deny: [["rm"]] } });
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

test("a new profile takes a name that is free", () => {
  const ollama = PROVIDERS.find((one) => one.id === "ollama");
  assert.ok(ollama);
  assert.equal(freeName(ollama, []), "default");
  assert.equal(freeName(ollama, ["default", "other"]), "ollama");
  assert.equal(freeName(ollama, ["default", "ollama"]), "ollama-2");
  assert.equal(freeName(ollama, ["default", "ollama", "ollama-2", "ollama-3"]), "ollama-4");
});

test("a key goes to the server only if that stores it", () => {
  assert.deepEqual(KEY_PLACES.map(({ place }) => keySource(place, "sk")), [undefined, { from: "keyring", key: "sk" }, { from: "file", key: "sk" }]);
});

test("a refusal is told with what the user can do about it", () => {
  const refused = Object.assign(new Error("the key was refused."), { data: { kind: "configuration", hint: "Check it." } });
  assert.equal(inWords(refused), "the key was refused. Check it.");
  assert.equal(kindOf(refused), "configuration");
  assert.equal(inWords("no"), "no");
  assert.equal(kindOf(new Error("x")), undefined);
});

test("a program is run to its end, and its last line is the complaint", async () => {
  const ran = await run(process.execPath, ["-e", "process.stdout.write(process.env.GIVEN); console.error('first\\nerror: it is broken'); process.exitCode = 3;"], { GIVEN: "x" });
  assert.deepEqual({ ...ran, complaint: complaint(ran) }, { code: 3, stdout: "x", stderr: "first\nerror: it is broken\n", complaint: "it is broken" });
  await assert.rejects(run("/nowhere/at/all", [], {}));
});
