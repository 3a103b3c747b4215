// Which program is started, and with which settings.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutEditor } from "../../src/environment.ts";
import { findServer, type Places } from "../../src/server.ts";
import { initializationOptions } from "../../src/settings.ts";

const places = (change: Partial<Places>, ...programs: string[]): Places => ({
  setting: undefined,
  extension: "/ext",
  path: "/usr/bin:/home/me/bin",
  platform: "linux",
  workspaces: ["/src/repo"],
  isProgram: (path) => programs.includes(path),
  ...change,
});

test("the setting goes before what the extension brings, and that before PATH", () => {
  const all = ["/opt/roo-lsp", "/ext/server/roo-lsp", "/home/me/bin/roo-lsp"];
  assert.deepEqual(findServer(places({ setting: "/opt/roo-lsp" }, ...all)), { program: "/opt/roo-lsp" });
  assert.deepEqual(findServer(places({}, ...all)), { program: "/ext/server/roo-lsp" });
  assert.deepEqual(findServer(places({}, "/home/me/bin/roo-lsp")), { program: "/home/me/bin/roo-lsp" });
  assert.ok("problem" in findServer(places({})));
});

test("a setting that names nothing is told, and nothing else is tried", () => {
  for (const setting of ["roo-lsp", "./roo-lsp", "bin/roo-lsp"]) {
    const found = findServer(places({ setting }, "/src/repo/bin/roo-lsp", "/ext/server/roo-lsp", setting));
    assert.ok("problem" in found && found.problem.includes("absolute"), setting);
  }
  assert.ok("problem" in findServer(places({ setting: "/none" }, "/ext/server/roo-lsp")));
});

test("nothing inside of a workspace is found by PATH", () => {
  const program = "/src/repo/node_modules/.bin/roo-lsp";
  assert.ok("problem" in findServer(places({ path: "/src/repo/node_modules/.bin" }, program)));
  assert.ok("problem" in findServer(places({ path: ":.:bin" }, "/roo-lsp", "roo-lsp", "bin/roo-lsp", "./roo-lsp")));
  const beside = "/src/repo2/bin/roo-lsp";
  assert.deepEqual(findServer(places({ path: "/src/repo2/bin" }, beside)), { program: beside });
});

test("Windows has its own paths", () => {
  const windows = { platform: "win32", extension: "C:\\ext", path: "C:\\repo\\bin;C:\\tools", workspaces: ["c:\\repo"] } as const;
  assert.deepEqual(findServer(places(windows, "C:\\repo\\bin\\roo-lsp.exe", "C:\\tools\\roo-lsp.exe")), { program: "C:\\tools\\roo-lsp.exe" });
});

test("a server with a daemon has the environment of a terminal, without what a window has added", () => {
  const added = { PATH: "/srv/code/bin/remote-cli:/usr/bin:/srv/codex/bin", BROWSER: "/srv/code/bin/helpers/browser.sh", HOME: "/home/me" };
  assert.deepEqual(withoutEditor(added, "/srv/code"), { PATH: "/usr/bin:/srv/codex/bin", HOME: "/home/me" });
  const own = { PATH: "bin::/usr/bin:/srv/code", BROWSER: "firefox" };
  assert.deepEqual(withoutEditor(own, "/srv/code"), own);
  assert.deepEqual(withoutEditor({}, "/srv/code"), {});
});

test("only the user's own settings go to the server", () => {
  const values: Record<string, object> = {
    mode: { globalValue: "code", workspaceValue: "ask" },
    autoApprove: { defaultValue: {}, workspaceValue: { write: true } },
    profiles: { workspaceFolderValue: { evil: {} } },
    limits: { defaultValue: null, globalValue: null },
  };
  const options = initializationOptions((key) => values[key]);
  assert.deepEqual(options, { roo: { mode: "code", protocolVersion: 1, documentSave: true, codeAsk: true } });
});

test("the typed protocol can be switched off, but not by a workspace", () => {
  const off = initializationOptions((key) => (key === "protocol.enabled" ? { defaultValue: true, globalValue: false } : undefined));
  assert.deepEqual(off, { roo: {} });
  const workspace = { defaultValue: true, workspaceValue: false };
  const on = initializationOptions((key) => (key === "protocol.enabled" ? workspace : undefined));
  assert.equal(on.roo["protocolVersion"], 1);
});
