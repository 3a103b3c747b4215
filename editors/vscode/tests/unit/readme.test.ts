// What the pages for users name is there: commands by their titles, settings by their keys.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../../../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string; readonly title: string; readonly category?: string }[];
    readonly keybindings: readonly { readonly command: string; readonly key: string; readonly mac: string; readonly when?: string }[];
    readonly configuration: readonly { readonly properties: Record<string, object> }[];
    readonly walkthroughs: readonly { readonly steps: readonly { readonly description: string }[] }[];
  };
}

const { contributes } = JSON.parse(read("editors/vscode/package.json")) as Manifest;
const walkthrough = "editors/vscode/media/walkthrough/";
const manual = read("docs/src/editors/vscode.md");
const pages = [read("README.md"), manual, read("editors/vscode/README.md"), ...readdirSync(new URL(walkthrough, root)).map((name) => read(walkthrough + name))];

test("every command that the pages name is there", () => {
  assert.ok(manual.includes("code --install-extension"), "the book says how to install the extension");
  const titles = contributes.commands.map(({ category, title }) => `${category}: ${title}`);
  const named = pages.flatMap((page) => [...page.replaceAll(/\s+/g, " ").matchAll(/\*\*(Roo: [^*]+)\*\*/g)].map(([, title]) => title ?? ""));
  assert.ok(named.length >= 4, named.join(", "));
  assert.deepEqual(named.filter((title) => !titles.includes(title)), []);
  const commands = contributes.commands.map(({ command }) => command);
  const linked = contributes.walkthroughs.flatMap(({ steps }) => steps).flatMap(({ description }) => [...description.matchAll(/command:([\w.]+)/g)].map(([, name]) => name ?? ""));
  assert.deepEqual(linked.filter((name) => !commands.includes(name)), []);
});

test("every setting that the pages name is there", () => {
  const settings = contributes.configuration.flatMap(({ properties }) => Object.keys(properties));
  const named = pages.flatMap((page) => [...page.matchAll(/`(roo\.[\w.]+)[`:]/g)].map(([, name]) => name ?? ""));
  assert.ok(named.includes("roo.server.path"));
  assert.deepEqual(named.filter((name) => !settings.includes(name)), []);
});

test("every contributed key is in the manual, and each has its condition", () => {
  const rows = manual.split("\n").filter((line) => line.startsWith("| `"));
  const named = (key: string): string => key.split(/([+ ])/).map((part) => (part.length > 1 ? part[0]?.toUpperCase() + part.slice(1) : part.toUpperCase())).join("");
  for (const { command, key, mac, when } of contributes.keybindings) {
    assert.ok(rows.some((row) => row.includes(`\`${named(key)}\``) && row.includes(`\`${named(mac)}\``)), `${command}: ${named(key)}, ${named(mac)}`);
    assert.ok(when, `${command} takes its key everywhere`);
  }
});
