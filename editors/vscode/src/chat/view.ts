// The chat as a view of VS Code: its page, and what goes back and forth.
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { FromPage, ToPage } from "./messages.ts";

/** Answers a message of the page. */
export type Respond = (message: FromPage) => Promise<void>;

/** The view of the chat. */
export class ChatView implements vscode.WebviewViewProvider {
  static readonly id = "roo.chat";
  readonly #extension: vscode.Uri;
  readonly #respond: Respond;
  #view: vscode.WebviewView | undefined;
  #ready = false;
  /** What a page that is still loading must not miss: it asks for the rest itself. */
  #waiting: ToPage[] = [];
  readonly #hidden = new vscode.EventEmitter<void>();
  /** It can't be seen any more. */
  readonly onDidHide = this.#hidden.event;

  constructor(extension: vscode.Uri, respond: Respond) {
    this.#extension = extension;
    this.#respond = respond;
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    const dist = vscode.Uri.joinPath(this.#extension, "dist");
    this.#view = view;
    this.#ready = false;
    view.webview.options = { enableScripts: true, enableForms: true, localResourceRoots: [dist] };
    view.webview.onDidReceiveMessage((message: FromPage) => {
      if (message.type === "ready") this.#ready = true;
      void this.#respond(message);
      if (message.type !== "ready") return;
      for (const late of this.#waiting.splice(0)) this.post(late);
    });
    // A hidden page is given up; it asks for all when it is shown again.
    view.onDidChangeVisibility(() => {
      if (view.visible) return;
      this.#ready = false;
      this.#hidden.fire();
    });
    view.onDidDispose(() => {
      if (this.#view !== view) return;
      this.#view = undefined;
      this.#hidden.fire();
    });
    view.webview.html = page(view.webview, dist);
  }

  /** Whether the user can see it. */
  get isVisible(): boolean {
    return this.#view?.visible === true;
  }

  /** Tells the page; one that isn't there asks for all when it comes. */
  post(message: ToPage): void {
    if (this.#view && this.#ready) void this.#view.webview.postMessage(message);
    else if (message.type === "focus" || message.type === "history" || message.type === "editHunk") this.#waiting.push(message);
  }

  /** How much waits, for the badge. */
  badge(count: number, tooltip: string): void {
    if (this.#view) this.#view.badge = count > 0 ? { value: count, tooltip } : undefined;
  }
}

function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64url");
  const script = webview.asWebviewUri(vscode.Uri.joinPath(dist, "page.js"));
  const style = webview.asWebviewUri(vscode.Uri.joinPath(dist, "page.css"));
  const policy = [`default-src 'none'`, `style-src ${webview.cspSource}`, `script-src 'nonce-${nonce}'`, `img-src data:`, `form-action 'none'`].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta http-equiv="Content-Security-Policy" content="${policy}">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Roo chat</title>
  <link rel="stylesheet" href="${style.toString()}">
</head>
<body>
  <script nonce="${nonce}" src="${script.toString()}"></script>
</body>
</html>`;
}
