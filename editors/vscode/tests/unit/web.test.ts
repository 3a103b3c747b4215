// The page in a browser shares modules with the extension: it has all that they use of VS Code.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("what the shared modules use of VS Code is there in a browser", async () => {
  const { metafile } = await build({ absWorkingDir: root, entryPoints: ["src/web/main.ts"], bundle: true, write: false, metafile: true, alias: { vscode: "./src/web/vscode.ts" } });
  const shared = Object.keys(metafile.inputs).filter((name) => name.startsWith("src/") && !name.startsWith("src/web/"));
  const used = new Set(shared.flatMap((name) => [...readFileSync(`${root}/${name}`, "utf8").matchAll(/\bvscode\.(window|workspace|commands|env)\.(\w+)/g)].map(([, part, member]) => `${part}.${member}`)));
  assert.ok(shared.includes("src/controller.ts") && used.has("window.showQuickPick"));
  const own = readFileSync(`${root}/src/web/vscode.ts`, "utf8");
  const missing = [...used].filter((name) => {
    const [part, member] = name.split(".");
    const members = new RegExp(`export const ${part} = \\{([\\s\\S]*?)\\n\\};`).exec(own)?.[1] ?? "";
    return !new RegExp(`\\b${member}\\b`).test(members);
  });
  assert.deepEqual(missing, []);
});
