// Questions of the server about code, passed on to whatever language extensions the user has. What they propose to change is told,
// and changed by nobody here.
import * as vscode from "vscode";
import type { CodePlace, CodeSymbol, OfferedCodeAction, ProposedFileEdits, ServerRequests } from "./protocol.ts";

type Asked = ServerRequests["roo/code/ask"];
type Told = Asked["result"];

/** What the server is to this editor. */
export interface Server {
  /** A file that the server has named. */
  document(uri: string): vscode.Uri;
  /** A file as the server names it. */
  uri(uri: vscode.Uri): string;
  /** Asks about a file while the server itself is not asked: it is not to be told what it has said. */
  aside<T>(uri: vscode.Uri, ask: () => Thenable<T>): Promise<T>;
}

/** The most of an answer: nobody reads more. */
const LIMIT = 5000;
/** The longest hover, in characters. */
const TEXT = 16_384;
/** The most actions of an answer. */
const ACTIONS = 50;
/** The most ranges of problems in one line that are asked about. */
const RANGES = 8;
/** Number of times that changes are asked for, with the files open that they are about. */
const ROUNDS = 4;

/** Asks the extensions for the file's language. What none of them answers is not known here. */
export async function askCode(params: Asked["params"], server: Server): Promise<Told> {
  // Opened where it is not yet, which starts the extension for its language.
  const document = await vscode.workspace.openTextDocument(server.document(params.uri));
  const at = new vscode.Position(params.position.line, params.position.character);
  switch (params.question) {
    case "symbols":
      return symbols(params.query ?? "", server);
    case "references":
    case "definition":
      return places(params.question, document, at, server);
    case "hover":
      return hover(document, at, server);
    case "rename":
      return proposed(server, () =>
        vscode.commands.executeCommand<vscode.WorkspaceEdit | undefined>("vscode.executeDocumentRenameProvider", document.uri, at, params.newName ?? ""),
      );
    case "actions": {
      const actions = (await offered(document, at.line, server)).map(
        ({ title, kind, isPreferred }): OfferedCodeAction => ({ title, ...(kind && { kind: kind.value }), ...(isPreferred && { isPreferred }) }),
      );
      return { isKnown: actions.length > 0, actions };
    }
    case "action":
      return chosen(params.title ?? "", document, at.line, server);
    default:
      return { isKnown: false };
  }
}

async function symbols(query: string, server: Server): Promise<Told> {
  const found = (await vscode.commands.executeCommand<vscode.SymbolInformation[] | undefined>("vscode.executeWorkspaceSymbolProvider", query)) ?? [];
  const symbols = found.filter(({ location }) => location.uri.scheme === "file").slice(0, LIMIT).map(
    // LSP counts kinds from 1.
    ({ name, kind, containerName, location }): CodeSymbol => ({ name, kind: kind + 1, ...(containerName && { container: containerName }), place: place(location, server) }),
  );
  return { isKnown: symbols.length > 0, symbols };
}

async function places(question: "references" | "definition", document: vscode.TextDocument, at: vscode.Position, server: Server): Promise<Told> {
  const command = question === "references" ? "vscode.executeReferenceProvider" : "vscode.executeDefinitionProvider";
  const found = (await vscode.commands.executeCommand<(vscode.Location | vscode.LocationLink)[] | undefined>(command, document.uri, at)) ?? [];
  const places = found
    .map((one) => ("targetUri" in one ? new vscode.Location(one.targetUri, one.targetSelectionRange ?? one.targetRange) : one))
    .filter(({ uri }) => uri.scheme === "file")
    .slice(0, LIMIT)
    .map((one) => place(one, server));
  // A symbol that is used is declared somewhere: without any place nobody knows it.
  return { isKnown: places.length > 0, places };
}

function place({ uri, range }: vscode.Location, server: Server): CodePlace {
  return { uri: server.uri(uri), line: range.start.line };
}

async function hover(document: vscode.TextDocument, at: vscode.Position, server: Server): Promise<Told> {
  const ask = () => vscode.commands.executeCommand<vscode.Hover[] | undefined>("vscode.executeHoverProvider", document.uri, at);
  const found = (await server.aside(document.uri, ask)) ?? [];
  const parts = found.flatMap(({ contents }) => contents.map((one) => (typeof one === "string" ? one : one.value).trim()));
  const text = parts.filter((part) => part !== "").join("\n\n").slice(0, TEXT);
  return { isKnown: text !== "", ...(text !== "" && { text }) };
}

/** The actions for a line that change texts. Commands, which somebody would carry out, are left out. */
async function offered(document: vscode.TextDocument, line: number, server: Server): Promise<vscode.CodeAction[]> {
  // Fixes are offered for the range of their problem.
  const problems = vscode.languages.getDiagnostics(document.uri).filter(({ range }) => range.start.line <= line && line <= range.end.line);
  const ranges = problems.map(({ range }) => range).filter((range, index, all) => all.findIndex((other) => other.isEqual(range)) === index);
  if (ranges.length === 0 && line < document.lineCount) ranges.push(document.lineAt(line).range);
  const actions: vscode.CodeAction[] = [];
  for (const range of ranges.slice(0, RANGES)) {
    const ask = () => vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[] | undefined>("vscode.executeCodeActionProvider", document.uri, range, undefined, ACTIONS);
    for (const action of (await server.aside(document.uri, ask)) ?? []) {
      const isTold = actions.some(({ title }) => title === action.title) || actions.length === ACTIONS;
      if ("edit" in action && action.edit && !action.disabled && !isTold) actions.push(action);
    }
  }
  return actions;
}

async function chosen(title: string, document: vscode.TextDocument, line: number, server: Server): Promise<Told> {
  let titles: string[] = [];
  const told = await proposed(server, async () => {
    const actions = await offered(document, line, server);
    titles = actions.map((action) => `\`${action.title}\``);
    return actions.find((action) => action.title === title)?.edit;
  });
  if (told.isKnown || titles.length === 0) return told;
  return { isKnown: true, refusal: `it offers no action of that title for this line; it offers ${titles.join(", ")}` };
}

/** What an extension proposes, once it has every file that this changes open, so that its positions are those of texts that the server has too. */
async function proposed(server: Server, ask: () => Thenable<vscode.WorkspaceEdit | undefined>): Promise<Told> {
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = new Map(vscode.workspace.textDocuments.map(({ uri, version }) => [uri.toString(), version]));
    let edit: vscode.WorkspaceEdit | undefined;
    try {
      edit = await ask();
    } catch (error) {
      return { isKnown: true, refusal: error instanceof Error ? error.message : String(error) };
    }
    if (!edit || !changesTextsOnly(edit)) return { isKnown: false };
    const entries = edit.entries().filter(([, edits]) => edits.length > 0);
    if (entries.length === 0 || entries.some(([uri]) => uri.scheme !== "file")) return { isKnown: false };
    const files: ProposedFileEdits[] = [];
    let isOfThese = true;
    for (const [uri, edits] of entries) {
      const { version } = await vscode.workspace.openTextDocument(uri);
      isOfThese &&= before.get(uri.toString()) === version;
      files.push({ uri: server.uri(uri), version, edits: edits.map(({ range: { start, end }, newText }) => ({ range: { start: { line: start.line, character: start.character }, end: { line: end.line, character: end.character } }, newText })) });
    }
    if (isOfThese) return { isKnown: true, files };
  }
  return { isKnown: false };
}

/** Kind of an entry that changes text, in the editor's own list: what is public leaves out all others, such as the renaming of files. */
const TEXT_ENTRY = 2;

/** Whether an edit changes texts and nothing else. Where that can't be told, it counts as one that does more. */
function changesTextsOnly(edit: vscode.WorkspaceEdit): boolean {
  const all = (edit as { _allEntries?: () => readonly { readonly _type?: unknown }[] })._allEntries?.();
  return all !== undefined && all.every(({ _type }) => _type === TEXT_ENTRY);
}
