// What the chat does with the user's editor: opens links of a model, puts code where the cursor is, finds files for a mention.
import * as vscode from "vscode";
import { ranked } from "./words.ts";

/** The user's editor, as far as the chat needs it. */
export interface ActiveEditor {
  readonly openLink: (href: string) => Promise<void>;
  readonly insert: (text: string, language: string) => Promise<void>;
  readonly files: (query: string) => Promise<readonly string[]>;
}

/** How many files are offered for a mention. */
const FILES_LIMIT = 8;
const FILES_LOOKED_AT = 200;
/** What programs write for themselves is rarely meant. */
const GENERATED = "**/{.git,node_modules,__pycache__,.venv,target,dist}/**";

/** Opens a link of a model: a web address outside, a file of the workspace in an editor, nothing else. */
export async function openLink(href: string): Promise<void> {
  if (/^https?:\/\//i.test(href)) return void (await vscode.env.openExternal(vscode.Uri.parse(href, true)));
  const [path = "", place] = decode(href).split(/#L?|:(?=\d+$)/);
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    const uri = vscode.Uri.joinPath(folder.uri, path);
    if (uri.path !== folder.uri.path && !uri.path.startsWith(`${folder.uri.path}/`)) continue;
    const found = await vscode.workspace.fs.stat(uri).then(({ type }) => type, () => undefined);
    if (found !== vscode.FileType.File) continue;
    const line = Math.max(0, Number.parseInt(place ?? "1", 10) - 1 || 0);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(line, 0, line, 0) });
    return;
  }
  void vscode.window.showInformationMessage(`Roo: the workspace has no file ${path}.`);
}

/** Puts code where the cursor of the active editor is, over what is selected; without an editor it opens as a new file. */
export async function insert(text: string, language: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors.find((one) => one.document.uri.scheme === "file");
  if (editor) {
    await editor.edit((edit) => editor.selections.forEach((selection) => edit.replace(selection, text)));
    await vscode.window.showTextDocument(editor.document, editor.viewColumn);
    return;
  }
  const known = (await vscode.languages.getLanguages()).includes(language);
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text, ...(known && { language }) }));
}

/** The files whose names have this in them, for a mention. */
export async function files(query: string): Promise<readonly string[]> {
  // What a glob would take for its own is left out.
  const name = query.replace(/["[\]{}*?\\]/g, "");
  const found = await vscode.workspace.findFiles(`**/*${name}*`, GENERATED, FILES_LOOKED_AT);
  const relative = (uri: vscode.Uri): string => vscode.workspace.asRelativePath(uri, false);
  const open = vscode.window.tabGroups.all.flatMap((group) => group.tabs).flatMap(({ input }) => (input instanceof vscode.TabInputText ? [relative(input.uri)] : []));
  return ranked(found.map(relative), name, new Set(open)).slice(0, FILES_LIMIT);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
