// Bundles the extension and its page into dist/.
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(`${root}/dist`, { recursive: true, force: true });

const common = { absWorkingDir: root, bundle: true, minify: true, legalComments: "linked", logLevel: "warning" };
await build({
  ...common,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.cjs",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  // The CommonJS entry would pull in the packages' own loaders.
  mainFields: ["module", "main"],
});
await build({
  ...common,
  entryPoints: { page: "src/webview/page.ts" },
  outdir: "dist",
  platform: "browser",
  format: "iife",
  target: "es2022",
});
await build({ ...common, entryPoints: { page: "src/webview/style.css" }, outdir: "dist", loader: { ".css": "css" } });

mkdirSync(`${root}/dist/schemas`, { recursive: true });
const { contributes } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
for (const { url } of [...contributes.jsonValidation, ...contributes.yamlValidation]) {
  cpSync(`${root}/../../${url.replace("./dist/", "")}`, `${root}/${url}`);
}
