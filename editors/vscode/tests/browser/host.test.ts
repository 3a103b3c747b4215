// Runs the tests of tests/host inside of the extension host, and takes their outcome.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { join } from "node:path";
import { Editor, until } from "./editor.ts";

test("the tests inside of the extension host pass", async (context) => {
  const editor = await Editor.start({ hostTests: true });
  try {
    const tests = join(editor.home, "tests.cjs");
    await build({
      entryPoints: [fileURLToPath(new URL("../host/index.ts", import.meta.url))],
      outfile: tests,
      bundle: true,
      platform: "node",
      format: "cjs",
      external: ["vscode"],
      logLevel: "warning",
    });
    let code: number | undefined;
    const log: string[] = [];
    await editor.page.exposeFunction("codeAutomationLog", (_type: string, values: unknown[]) => log.push(values.map(String).join(" ")));
    await editor.page.exposeFunction("codeAutomationExit", (exit: number) => {
      code = exit;
    });
    const remote = `vscode-remote://${new URL(editor.url()).host}`;
    await editor.page.goto(
      editor.url([
        ["extensionDevelopmentPath", `${remote}${fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")}`],
        ["extensionTestsPath", `${remote}${tests}`],
        ["skipWelcome", "true"],
      ]),
    );
    await until(() => code !== undefined, "the tests have ended", 90_000).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${log.join("\n")}`);
    });
    for (const line of log.filter((one) => /[✔✖]/.test(one))) context.diagnostic(line);
    assert.equal(code, 0, log.join("\n"));
    assert.ok(log.some((line) => line.includes("✔")), "tests were run");
  } catch (error) {
    throw await editor.failed("host", error);
  } finally {
    await editor.stop();
  }
});
