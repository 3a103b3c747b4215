// Questions of the server about code, passed on to whatever language extensions the user has.
import * as vscode from "vscode";
import type { CodePlace, CodeSymbol, ServerRequests } from "./protocol.ts";

type Asked = ServerRequests["roo/code/ask"];

/** The most of an answer: nobody reads more. */
const LIMIT = 5000;

/** Asks the extensions for the file's language. What none of them answers is not known here. `uris` spells files as the server does. */
export async function askCode({ question, uri, position, query }: Asked["params"], uris: { document(uri: string): vscode.Uri; uri(uri: vscode.Uri): string }): Promise<Asked["result"]> {
  // Opened where it is not yet, which starts the extension for its language.
  const document = await vscode.workspace.openTextDocument(uris.document(uri));
  const place = ({ uri, range }: vscode.Location): CodePlace => ({ uri: uris.uri(uri), line: range.start.line });
  if (question === "symbols") {
    const found = (await vscode.commands.executeCommand<vscode.SymbolInformation[] | undefined>("vscode.executeWorkspaceSymbolProvider", query ?? "")) ?? [];
    const symbols = found.filter(({ location }) => location.uri.scheme === "file").slice(0, LIMIT).map(
      // LSP counts kinds from 1.
      ({ name, kind, containerName, location }): CodeSymbol => ({ name, kind: kind + 1, ...(containerName && { container: containerName }), place: place(location) }),
    );
    return { isKnown: symbols.length > 0, symbols };
  }
  const command = question === "references" ? "vscode.executeReferenceProvider" : "vscode.executeDefinitionProvider";
  const at = new vscode.Position(position.line, position.character);
  const found = (await vscode.commands.executeCommand<(vscode.Location | vscode.LocationLink)[] | undefined>(command, document.uri, at)) ?? [];
  const places = found
    .map((one) => ("targetUri" in one ? new vscode.Location(one.targetUri, one.targetSelectionRange ?? one.targetRange) : one))
    .filter(({ uri }) => uri.scheme === "file")
    .slice(0, LIMIT)
    .map(place);
  // A symbol that is used is declared somewhere: without any place nobody knows it.
  return { isKnown: places.length > 0, places };
}
