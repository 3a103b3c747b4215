// What the server asks of the editor's documents, and what it is told of the editor.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import type { ActiveEditor, DiagnosticSeverity, EditorDiagnostic } from "./protocol.ts";
import { position, range } from "./ranges.ts";

/** The most diagnostics of a file that the server is told. */
const DIAGNOSTICS_LIMIT = 200;
/** Cursors move faster than anybody needs to know. */
const SETTLE_MS = 150;

/** Saves documents that are open and changed. Those that are on disk as they are open are told. */
export async function save(uris: readonly string[], document: (uri: string) => vscode.Uri): Promise<{ saved: string[] }> {
  const saved: string[] = [];
  for (const name of uris) {
    const uri = document(name).toString();
    const open = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri);
    if (open === undefined || !open.isDirty || (await open.save())) saved.push(name);
  }
  return { saved };
}

/** Tells the server which file is in front, and what other tools find wrong. */
export function tellEditor(connection: Connection): vscode.Disposable {
  let timer: NodeJS.Timeout | undefined;
  const soon = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      connection.notify("roo/editor/didChange", { active: active(connection) });
    }, SETTLE_MS);
  };
  const diagnose = (uris: readonly vscode.Uri[]): void => {
    for (const uri of uris) {
      if (uri.scheme !== "file") continue;
      connection.notify("roo/editor/diagnostics", { uri: connection.uri(uri), diagnostics: diagnostics(uri) });
    }
  };
  soon();
  diagnose(vscode.languages.getDiagnostics().map(([uri]) => uri));
  return vscode.Disposable.from(
    vscode.window.onDidChangeActiveTextEditor(soon),
    vscode.window.onDidChangeTextEditorSelection(soon),
    vscode.window.onDidChangeTextEditorVisibleRanges(soon),
    vscode.languages.onDidChangeDiagnostics(({ uris }) => diagnose(uris)),
    { dispose: () => clearTimeout(timer) },
  );
}

function active(connection: Connection): ActiveEditor | null {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.uri.scheme !== "file") return null;
  const visible = editor.visibleRanges[0];
  return {
    uri: connection.uri(editor.document.uri),
    cursor: position(editor.selection.active),
    visible: visible ? range(visible) : null,
  };
}

const SEVERITIES: Record<vscode.DiagnosticSeverity, DiagnosticSeverity> = {
  [vscode.DiagnosticSeverity.Error]: 1,
  [vscode.DiagnosticSeverity.Warning]: 2,
  [vscode.DiagnosticSeverity.Information]: 3,
  [vscode.DiagnosticSeverity.Hint]: 4,
};

function diagnostics(uri: vscode.Uri): EditorDiagnostic[] {
  return vscode.languages
    .getDiagnostics(uri)
    // What the server has said itself it knows.
    .filter((one) => one.source !== "roo-lsp")
    .slice(0, DIAGNOSTICS_LIMIT)
    .map((one) => ({
      range: range(one.range),
      severity: SEVERITIES[one.severity],
      source: one.source ?? null,
      message: one.message,
    }));
}
