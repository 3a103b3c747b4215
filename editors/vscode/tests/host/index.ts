// Tests inside of the real extension host: what the extension does with VS Code's own means.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as vscode from "vscode";
import { askCode } from "../../src/code.ts";
import type { Api } from "../../src/extension.ts";
import { root, waiting } from "../../src/state.ts";

const DEADLINE = 20_000;

async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + DEADLINE;
  while (Date.now() < end) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within ${DEADLINE} ms: ${what}`);
}

const extension = (): vscode.Extension<Api> => {
  const found = vscode.extensions.getExtension<Api>("roo-lsp.roo-lsp");
  assert.ok(found, "the extension is there");
  return found;
};

const inWorkspace = (path: string): vscode.Uri => {
  const folder = vscode.workspace.workspaceFolders?.[0];
  assert.ok(folder);
  return vscode.Uri.joinPath(folder.uri, path);
};

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly keybindings: readonly { readonly command: string; readonly key: string; readonly when: string }[];
    readonly configuration: readonly { readonly properties: Record<string, { readonly scope?: string }> }[];
  };
}

const tests: Record<string, (api: Api) => Promise<void>> = {
  "every command of the manifest is registered, and every one of the server": async (api) => {
    const registered = new Set(await vscode.commands.getCommands(true));
    const manifest = extension().packageJSON as Manifest;
    const missing = manifest.contributes.commands.map(({ command }) => command).filter((name) => !registered.has(name));
    assert.deepEqual(missing, []);
    const commands = api.connection()?.commands ?? [];
    assert.ok(commands.includes("roo.newTask"));
    assert.deepEqual(commands.filter((name) => !registered.has(name)), []);
  },

  "questions about code are passed on to the providers of other extensions": async () => {
    const uri = inWorkspace("greeting.sh");
    const server = { document: (text: string) => vscode.Uri.parse(text, true), uri: (one: vscode.Uri) => one.toString(), aside: <T>(_: vscode.Uri, asked: () => Thenable<T>): Promise<T> => Promise.resolve(asked()) };
    const ask = (question: "references" | "definition" | "symbols") => askCode({ question, uri: uri.toString(), position: { line: 0, character: 0 }, query: "gre" }, server);
    assert.deepEqual(await ask("references"), { isKnown: false, places: [] });
    const at = new vscode.Location(uri, new vscode.Position(2, 0));
    const here = { scheme: "file", pattern: "**/greeting.sh" };
    const registered = vscode.Disposable.from(
      vscode.languages.registerReferenceProvider(here, { provideReferences: () => [at] }),
      vscode.languages.registerDefinitionProvider(here, { provideDefinition: () => [{ targetUri: uri, targetRange: at.range, targetSelectionRange: at.range }] }),
      vscode.languages.registerWorkspaceSymbolProvider({ provideWorkspaceSymbols: () => [new vscode.SymbolInformation("greet", vscode.SymbolKind.Function, "shell", at)] }),
    );
    try {
      const place = { uri: uri.toString(), line: 2 };
      assert.deepEqual(await ask("references"), { isKnown: true, places: [place] });
      assert.deepEqual(await ask("definition"), { isKnown: true, places: [place] });
      assert.deepEqual(await ask("symbols"), { isKnown: true, symbols: [{ name: "greet", kind: 12, container: "shell", place }] });
    } finally {
      registered.dispose();
    }
  },

  "what extensions propose is told and not changed, and what the server says itself is left out": async (api) => {
    const connection = api.connection();
    assert.ok(connection);
    const [uri, other] = [inWorkspace("greeting.sh"), inWorkspace("other.sh")];
    await vscode.workspace.fs.writeFile(other, Buffer.from("greet\n"));
    const ask = (params: { question: "hover" | "rename" | "actions" | "action"; newName?: string; title?: string }) =>
      askCode({ ...params, uri: connection.uri(uri), position: { line: 1, character: 0 } }, connection);
    assert.deepEqual(await ask({ question: "hover" }), { isKnown: false });
    assert.deepEqual(await ask({ question: "rename", newName: "hail" }), { isKnown: false });
    const word = new vscode.Range(0, 0, 0, 5);
    const edit = (name: string, more = false): vscode.WorkspaceEdit => {
      const made = new vscode.WorkspaceEdit();
      for (const file of [uri, other]) made.replace(file, word, name);
      if (more) made.renameFile(other, inWorkspace("hail.sh"));
      return made;
    };
    const here = { scheme: "file", pattern: "**/greeting.sh" };
    const [plain, command] = [new vscode.CodeAction("Greet twice", vscode.CodeActionKind.QuickFix), new vscode.CodeAction("Run it", vscode.CodeActionKind.QuickFix)];
    plain.edit = edit("twice");
    plain.isPreferred = true;
    command.command = { title: "Run it", command: "workbench.action.files.newUntitledFile" };
    const registered = vscode.Disposable.from(
      vscode.languages.registerHoverProvider(here, { provideHover: () => new vscode.Hover(["a function", new vscode.MarkdownString("**greets**")]) }),
      vscode.languages.registerRenameProvider(here, {
        provideRenameEdits: (_document, _position, name) => (name === "taken" ? Promise.reject(new Error("There is one already")) : edit(name, name === "moved")),
      }),
      vscode.languages.registerCodeActionsProvider(here, { provideCodeActions: () => [plain, command] }),
    );
    try {
      assert.deepEqual(await ask({ question: "hover" }), { isKnown: true, text: "a function\n\n**greets**" });
      const told = await ask({ question: "rename", newName: "hail" });
      const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 5 } };
      const versions = [uri, other].map((file) => vscode.workspace.textDocuments.find((one) => one.uri.toString() === file.toString())?.version);
      const files = (newText: string) => [uri, other].map((file, index) => ({ uri: connection.uri(file), version: versions[index], edits: [{ range, newText }] }));
      assert.deepEqual(told, { isKnown: true, files: files("hail") });
      assert.deepEqual(await ask({ question: "rename", newName: "moved" }), { isKnown: false }, "only texts are changed");
      const refused = await ask({ question: "rename", newName: "taken" });
      assert.match(refused.refusal ?? "", /There is one already/);
      assert.deepEqual(await ask({ question: "actions" }), { isKnown: true, actions: [{ title: "Greet twice", kind: "quickfix", isPreferred: true }] });
      assert.deepEqual(await ask({ question: "action", title: "Greet twice" }), { isKnown: true, files: files("twice") });
      assert.match((await ask({ question: "action", title: "Run it" })).refusal ?? "", /offers `Greet twice`/);
      assert.equal(Buffer.from(await vscode.workspace.fs.readFile(other)).toString(), "greet\n");
      assert.ok([uri, other].every((file) => !vscode.workspace.textDocuments.some((one) => one.uri.toString() === file.toString() && one.isDirty)));
    } finally {
      registered.dispose();
      await vscode.workspace.fs.delete(other);
    }
  },

  "no contributed key is one of the editor's, except in the chat and in the read-only diff of an approval": async () => {
    const defaults = (await vscode.workspace.openTextDocument(vscode.Uri.parse("vscode://defaultsettings/keybindings.json"))).getText();
    const taken = new Set([...defaults.matchAll(/"key": "([^"]+)",\s+"command": "([^"]+)"/g)].flatMap(([, key, command]) => (command?.startsWith("roo.") ? [] : [key])));
    assert.ok(taken.has("ctrl+s") && taken.size > 200, `${taken.size} keys of the editor`);
    const { keybindings } = (extension().packageJSON as Manifest).contributes;
    const own = keybindings.filter(({ when }) => /roo\.chatFocused|resourceScheme == '?roo-preview/.test(when));
    assert.ok(own.length >= 4);
    const others = keybindings.filter((one) => !own.includes(one));
    assert.deepEqual(others.filter(({ key }) => taken.has(key)), []);
    // A chord begins with a key that begins chords already.
    assert.ok(others.every(({ key }) => key.startsWith("ctrl+k ")));
  },

  "no setting that reaches the server can be a workspace's": async () => {
    const { configuration } = (extension().packageJSON as Manifest).contributes;
    const all = configuration.flatMap(({ properties }) => Object.entries(properties));
    const open = all.filter(([, { scope }]) => scope !== "machine").map(([name]) => name);
    assert.deepEqual(open, ["roo.notifications"]);
    await vscode.workspace.fs.writeFile(inWorkspace(".vscode/settings.json"), Buffer.from('{"roo.autoApprove": {"write": true}, "roo.server.path": "/evil"}'));
    await until("the workspace's settings are read", async () => (await vscode.workspace.findFiles(".vscode/settings.json")).length === 1);
    const settings = vscode.workspace.getConfiguration("roo");
    assert.deepEqual(settings.get("autoApprove"), {});
    assert.notEqual(settings.get("server.path"), "/evil");
  },

  "the editor finds by the schemas what is wrong in files that steer agents": async () => {
    const texts: Record<string, string> = {
      ".roo/hooks.json": '{ "hooks": { "BeforeTool": [] } }',
      ".roo/mcp.json": '// ours\n{ "mcpServers": { "files": { "comand": "x" } } }',
      ".roomodes": '{ "customModes": [{ "slug": "two words", "name": "Two", "roleDefinition": "You count.", "groups": ["write"] }] }',
    };
    for (const [path, text] of Object.entries(texts)) {
      const uri = inWorkspace(path);
      await vscode.workspace.fs.writeFile(uri, Buffer.from(text));
      // Only what is shown is looked at.
      const { document } = await vscode.window.showTextDocument(uri);
      // In YAML it is the YAML extension that reads the schema.
      if (path === ".roomodes") await vscode.languages.setTextDocumentLanguage(document, "json");
      const found = await until(`what is wrong in ${path}`, () => {
        const own = vscode.languages.getDiagnostics(uri).filter((one) => one.source !== "roo-lsp");
        return own.length > 0 && own;
      });
      assert.match(found.map((one) => one.message).join("\n"), /pattern|enum|Expected|BeforeTool|comand/i);
      await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
      await vscode.workspace.fs.delete(uri);
    }
  },

  "the scenario's edit reaches an unsaved document, is previewed, and is saved before a command": async (api) => {
    const uri = inWorkspace("greeting.sh");
    const document = await vscode.workspace.openTextDocument(uri);
    const editor = await vscode.window.showTextDocument(document);
    await editor.edit((edit) => edit.insert(document.lineAt(document.lineCount - 1).range.end, "# not saved yet\n"));
    assert.ok(document.isDirty);

    // As a code action would: with an argument that is the server's business.
    const range = { start: { line: 3, character: 0 }, end: { line: 4, character: document.lineAt(4).text.length } };
    const context = [{ uri: uri.toString(), range }];
    await vscode.commands.executeCommand("roo.newTask", { prompt: "Greet politely", mode: "new-task", context });
    const shown = await until("the request is shown", () => api.store.shown);
    const request = (): typeof shown => api.store.shown ?? shown;

    const question = await until("a question", () => waiting(request()).find((one) => one.question)?.question);
    await vscode.commands.executeCommand("roo.answer", { questionId: question.questionId, text: "Formal: Good day" });

    const approval = (title: string): Promise<{ approvalId: string }> =>
      until(title, () => waiting(request()).find((one) => one.approval?.title.includes(title))?.approval);
    await approval("docs/greeting.md");
    await vscode.commands.executeCommand("roo.approve");

    const edit = await approval("greeting.sh");
    await vscode.commands.executeCommand("roo.showDiff");
    const input = await until("a diff", () => {
      const active = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
      return active instanceof vscode.TabInputTextDiff && active;
    });
    const [before, after] = await Promise.all([input.original, input.modified].map((one) => vscode.workspace.openTextDocument(one)));
    assert.equal(before?.getText(), document.getText(), "the text before has what is not saved");
    assert.equal(after?.getText(), document.getText().replace('echo "hey $name"', 'echo "Good day, $name."'));
    await vscode.commands.executeCommand("roo.approve", input.modified);
    await until("the edit in the document", () => document.getText().includes("Good day"));
    assert.ok(document.getText().endsWith("# not saved yet\n"));
    assert.ok(document.isDirty, "an edit saves nothing");
    await until("the preview is closed", () => !vscode.window.tabGroups.all.some((group) => group.tabs.some((tab) => tab.input instanceof vscode.TabInputTextDiff)));
    assert.ok(!waiting(request()).some((one) => one.approval?.approvalId === edit.approvalId));

    await approval("Run sh greeting.sh");
    assert.ok(document.isDirty);
    await vscode.commands.executeCommand("roo.approve");
    await until("the document is saved", () => !document.isDirty);
    assert.match(readFileSync(uri.fsPath, "utf8"), /Good day[^]*# not saved yet/);

    await until("Code speaks", () => request().feed.some((item) => item.kind === "message" && item.text.startsWith("It prints")));
    assert.equal(request().nodes.length, 4);
    await vscode.commands.executeCommand("roo.cancel");
    await until("it is cancelled", () => root(request())?.state === "cancelled");
    await vscode.commands.executeCommand("roo.resume");
    await until("it is completed", () => root(request())?.state === "completed");

    // Its own hover, of who wrote the line, is what the server must not be told.
    const connection = api.connection();
    assert.ok(connection);
    const line = document.getText().split("\n").findIndex((text) => text.includes("Good day"));
    const hovers = (): Thenable<vscode.Hover[]> => vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", uri, new vscode.Position(line, 0));
    assert.equal((await hovers()).length, 1);
    const told = await askCode({ question: "hover", uri: connection.uri(uri), position: { line, character: 0 } }, connection);
    assert.deepEqual(told, { isKnown: false });
    assert.equal((await hovers()).length, 1);
  },

  "the server is told what other tools find": async (api) => {
    const uri = inWorkspace("greeting.sh");
    const other = vscode.languages.createDiagnosticCollection("other");
    const problem = new vscode.Diagnostic(new vscode.Range(4, 0, 4, 4), "nobody is greeted", vscode.DiagnosticSeverity.Error);
    // The extension hears of it before this listener does, which came later.
    const told = new Promise<void>((resolve) => {
      const listener = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
        if (!uris.some((one) => one.toString() === uri.toString())) return;
        listener.dispose();
        resolve();
      });
    });
    other.set(uri, [problem]);
    await told;
    const started = await api.connection()?.request("roo/task/start", { prompt: "Look at @problems", mode: "code" });
    assert.ok(started);
    // The script has no turn for it, and the failure says what the model was shown.
    const request = (): unknown => [...api.store.all].find((one) => one.rootId === started.taskId);
    await until("the model is shown the problem", () => JSON.stringify(request() ?? "").includes("nobody is greeted")).catch((error: unknown) => {
      throw new Error(`${String(error)}: ${JSON.stringify(request())}`);
    });
    other.dispose();
    await api.connection()?.request("roo/task/cancel", { taskId: started.taskId });
  },
};

/** Called by VS Code. */
export async function run(): Promise<void> {
  const api = await extension().activate();
  await until("the server speaks roo/*", () => api.connection()?.isRunning && api.connection()?.isTyped);
  const failures: string[] = [];
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(api);
      console.log(`✔ ${name}`);
    } catch (error) {
      console.log(`✖ ${name}`);
      failures.push(`${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }
  if (failures.length > 0) throw new Error(failures.join("\n\n"));
}
