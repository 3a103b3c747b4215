// Carries out what the user wants in the chat, by commands and in notifications. All work is the server's.
import * as vscode from "vscode";
import type { FromPage, Place, ChatContext, ToPage } from "./chat/messages.ts";
import type { ChatView } from "./chat/view.ts";
import type { Connection } from "./connection.ts";
import type { ApprovalRespondParams, ContextItem, EventParams, PendingApproval, PendingQuestion, Range, Requests, TaskId, TreeNode } from "./protocol.ts";
import { range } from "./documents.ts";
import type { Previews } from "./preview.ts";
import { isActive, isResumable, waiting, type Request, type Waiting } from "./state.ts";
import type { Store } from "./store.ts";

/** Which request was shown, for the next start of the editor. */
const SHOWN = "roo.shownTask";
/** How many files are offered for a mention. */
const FILES_LIMIT = 8;

/** What the parts of the extension share. */
export interface Parts {
  readonly context: vscode.ExtensionContext;
  readonly store: Store;
  readonly previews: Previews;
  readonly connection: () => Connection | undefined;
  readonly log: vscode.LogOutputChannel;
}

/** The user's hand. */
export class Controller {
  readonly #parts: Parts;
  #view: ChatView | undefined;
  #only: TaskId | undefined;
  #places: Place[] = [];
  #cursor: string | null | undefined;
  /** The approvals that were opened in full. */
  readonly #opened = new Set<string>();
  #context: ChatContext = {
    problem: "The server is starting…",
    modes: [],
    profiles: [],
    commands: [],
    defaultMode: "new-task",
    places: [],
    untrusted: [],
  };

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.store.onDidReset(() => {
      this.#only = undefined;
      this.#postState();
      this.#reflect();
    });
    parts.store.onDidApply((params) => this.#applied(params));
    parts.store.onDidChange(() => this.#reflect());
  }

  /** Shows all of it in this view. */
  bind(view: ChatView): void {
    this.#view = view;
  }

  /** The server runs, speaking `roo/*`: catches up with it. */
  async connected(): Promise<void> {
    const { store, context } = this.#parts;
    await this.#ask("roo/task/attach", { taskId: "*" });
    const known = [...store.all].map((request) => request.rootId);
    await Promise.all(known.map((rootId) => store.follow(rootId).catch(() => store.forget(rootId))));
    if (store.shown === undefined) {
      const { items } = await this.#ask("roo/task/list", {});
      const before = context.workspaceState.get<string>(SHOWN);
      const shown = items.find((item) => item.taskId === before) ?? items.find((item) => !["completed", "failed", "cancelled"].includes(item.state));
      if (shown) await store.show(shown.taskId);
    }
    await this.refresh();
  }

  /** The server is gone, or never came. */
  disconnected(problem: string): void {
    this.#updateContext({ problem });
  }

  /** Asks for what a prompt may use. */
  async refresh(): Promise<void> {
    const [modes, profiles, commands, trust] = await Promise.all([
      this.#ask("roo/mode/list", {}),
      this.#ask("roo/profile/list", {}),
      this.#ask("roo/command/list", {}),
      this.#ask("roo/trust/get", {}),
    ]);
    const set = vscode.workspace.getConfiguration("roo").inspect<string | null>("mode")?.globalValue;
    this.#updateContext({
      problem: undefined,
      modes: modes.modes,
      profiles: profiles.profiles,
      commands: commands.commands,
      defaultMode: set ?? "new-task",
      untrusted: trust.trusted ? trust.pendingApprovals.map((one) => one.path) : trust.brings,
    });
  }

  /** Answers the page. */
  async respond(message: FromPage): Promise<void> {
    try {
      await this.#carryOut(message);
    } catch (error) {
      const text = inWords(error);
      this.#post({ type: "failed", what: message.type, message: text });
      void vscode.window.showErrorMessage(`Roo: ${text}`);
    }
  }

  async #carryOut(message: FromPage): Promise<void> {
    switch (message.type) {
      case "ready":
        this.#post({ type: "context", context: this.#context });
        this.#postState();
        return;
      case "start":
        return void (await this.start(message.prompt, message.images, message.mode, message.profile));
      case "send":
        await this.#ask("roo/task/send", { taskId: message.taskId, text: message.text, images: [...message.images], when: message.when });
        return this.#post({ type: "taken", taskId: message.taskId });
      case "cancel":
        return void (await this.#ask("roo/task/cancel", { taskId: message.taskId }));
      case "resume":
        return void (await this.#ask("roo/task/resume", { taskId: message.taskId }));
      case "open":
        return this.show(message.taskId);
      case "delete":
        return this.#delete(message.taskId);
      case "history":
        return this.#history(message.more);
      case "all":
        return this.showBranch(undefined);
      case "respond": {
        const { approvalId, digest, optionId, text } = message;
        await this.#decide({ approvalId, digest, optionId, ...(text && { text }) });
        // The answer may have trusted the workspace.
        return this.#context.untrusted.length > 0 ? this.refresh() : undefined;
      }
      case "answer":
        return late(await this.#ask("roo/question/answer", { questionId: message.questionId, text: message.text }));
      case "showDiff":
        return this.showDiff(message.approvalId);
      case "editQueued":
        return void (await this.#ask("roo/queue/edit", { taskId: message.taskId, itemId: message.itemId, text: message.text }));
      case "deleteQueued":
        return void (await this.#ask("roo/queue/delete", { taskId: message.taskId, itemId: message.itemId }));
      case "switchMode":
        return void (await this.#ask("roo/mode/switch", { taskId: message.taskId, mode: message.mode }));
      case "selectProfile":
        return void (await this.#ask("roo/profile/select", { taskId: message.taskId, profile: message.profile }));
      case "removePlace":
        this.#places = this.#places.toSpliced(message.index, 1);
        return this.#updateContext({ places: this.#places });
      case "files":
        return this.#offerFiles(message.query);
      case "link":
        return openLink(message.href);
      case "trust":
        return void (await vscode.commands.executeCommand("roo.trustWorkspace"));
      default:
        // A page of an older or newer extension.
        return message satisfies never;
    }
  }

  /** Starts a request with the places that were collected. */
  async start(prompt: string, images: readonly string[], mode?: string, profile?: string): Promise<TaskId> {
    const context = this.#places.map((place) => place.item);
    const params = { prompt, context, images: [...images], ...(mode !== undefined && { mode }), ...(profile !== undefined && { profile }) };
    const { taskId } = await this.#ask("roo/task/start", params);
    this.#places = [];
    this.#updateContext({ places: [] });
    this.#post({ type: "taken", taskId });
    await this.#parts.context.workspaceState.update(SHOWN, taskId);
    await this.#parts.store.show(taskId);
    return taskId;
  }

  /** Adds the selection of an editor to the places that the next prompt is about. */
  async addSelection(editor: vscode.TextEditor): Promise<void> {
    await this.#add([selected(editor, this.#need())]);
  }

  /** Adds places that the server has named, as in a code action. */
  async addPlaces(items: readonly ContextItem[]): Promise<void> {
    const connection = this.#need();
    await this.#add(
      items.map((item) => {
        const name = vscode.workspace.asRelativePath(connection.document(item.uri), false);
        return { label: item.range ? `${name}:${lines(item.range)}` : name, item };
      }),
    );
  }

  async #add(places: readonly Place[]): Promise<void> {
    await this.show(undefined);
    this.#places = [...this.#places, ...places];
    this.#updateContext({ places: this.#places });
    await vscode.commands.executeCommand("roo.chat.focus");
    this.#post({ type: "focus" });
  }

  /** Shows a request, or the empty page. */
  async show(taskId: TaskId | undefined): Promise<void> {
    await this.#parts.context.workspaceState.update(SHOWN, taskId);
    await this.#parts.store.show(taskId);
  }

  /** Shows one branch alone, or all. */
  showBranch(node: TreeNode | undefined): void {
    this.#only = node?.id;
    this.#postState();
  }

  /** Makes room for a new request. */
  async begin(): Promise<void> {
    await this.show(undefined);
    await vscode.commands.executeCommand("roo.chat.focus");
    this.#post({ type: "focus" });
  }

  /** Opens the history in the chat. */
  async openHistory(): Promise<void> {
    await vscode.commands.executeCommand("roo.chat.focus");
    await this.#history(false);
  }

  /** The modes and profiles to choose from. */
  get choices(): Pick<ChatContext, "modes" | "profiles"> {
    return this.#context;
  }

  /** The request that is shown. */
  get shown(): Request | undefined {
    return this.#parts.store.shown;
  }

  /** What waits in the request that is shown. */
  get waiting(): readonly Waiting[] {
    return this.shown ? waiting(this.shown) : [];
  }

  /** The commands of the request that run in the background, with their lines. */
  get commands(): Request["commands"] {
    return this.shown?.commands ?? {};
  }

  /** Shows what an approval is about. */
  async showDiff(approvalId: string): Promise<void> {
    const approval = this.#approval(approvalId);
    if (!approval) return void vscode.window.showInformationMessage("Roo: this has already been answered.");
    const preview = this.#need().knows("roo/approval/preview")
      ? await this.#ask("roo/approval/preview", { approvalId })
      : { files: [] };
    await this.#parts.previews.open(approval, preview.files);
    this.#opened.add(approvalId);
  }

  /** Answers an approval with its first option of a kind. */
  async decide(approvalId: string | undefined, kind: "allow_once" | "reject_once"): Promise<void> {
    const approval = approvalId === undefined ? this.waiting.find((one) => one.approval)?.approval : this.#approval(approvalId);
    const option = approval?.options.find((one) => one.kind === kind);
    if (!approval || !option) return void vscode.window.showInformationMessage("Roo: nothing waits for permission.");
    return this.#decide({ approvalId: approval.approvalId, digest: approval.digest, optionId: option.id });
  }

  /** Answers an approval. What is too long for a glance is opened before it can be allowed. */
  async #decide(answer: ApprovalRespondParams): Promise<void> {
    const approval = this.#approval(answer.approvalId);
    const allows = approval?.options.find((one) => one.id === answer.optionId)?.kind.startsWith("allow");
    const opened = this.#opened.has(answer.approvalId);
    if (approval?.mustOpen && allows && !opened) {
      await this.showDiff(approval.approvalId);
      return void vscode.window.showInformationMessage("Roo: this is too long to approve from its summary. Review all of it, then allow it.");
    }
    late(await this.#ask("roo/approval/respond", opened ? { ...answer, opened } : answer));
  }

  /** Answers a question; asks for the answer. */
  async answer(question: PendingQuestion): Promise<void> {
    const text = await answerTo(question);
    if (text) late(await this.#ask("roo/question/answer", { questionId: question.questionId, text }));
  }

  #approval(approvalId: string): PendingApproval | undefined {
    for (const request of this.#parts.store.all) {
      const found = waiting(request).find((one) => one.approval?.approvalId === approvalId);
      if (found?.approval) return found.approval;
    }
    return undefined;
  }

  async #delete(taskId: TaskId): Promise<void> {
    const yes = "Delete";
    const detail = "Its conversation and its log are removed. Files that it has changed stay as they are.";
    if ((await vscode.window.showWarningMessage("Delete this request?", { modal: true, detail }, yes)) !== yes) return;
    await this.#ask("roo/task/delete", { taskId });
    this.#parts.store.forget(taskId);
    await this.#history(false);
  }

  async #history(more: boolean): Promise<void> {
    const { items, nextCursor } = await this.#ask("roo/task/list", more && this.#cursor ? { cursor: this.#cursor } : {});
    this.#cursor = nextCursor;
    this.#post({ type: "history", items, more: nextCursor != null });
  }

  async #offerFiles(query: string): Promise<void> {
    // What a glob would take for its own is left out.
    const name = query.replace(/["[\]{}*?\\]/g, "");
    const found = await vscode.workspace.findFiles(`**/*${name}*`, undefined, FILES_LIMIT);
    const paths = found.map((uri) => vscode.workspace.asRelativePath(uri, false)).toSorted();
    this.#post({ type: "files", query, paths });
  }

  #applied(params: EventParams): void {
    this.#post({ type: "event", params });
    const { event } = params;
    if (event.type === "approval.requested" || event.type === "question.asked") void this.#notify(params);
    if (event.type === "approval.resolved") void this.#parts.previews.close(event.approvalId);
  }

  /** A notification for what waits, if it can't be seen. */
  async #notify({ taskId, event }: EventParams): Promise<void> {
    const when = vscode.workspace.getConfiguration("roo").get<string>("notifications");
    if (when === "never" || (when !== "always" && this.#view?.isVisible)) return;
    const node = this.shown?.nodes.find((one) => one.id === taskId);
    const who = node && node.parentId ? `${node.emoji} ${node.title}: ` : "";
    if (event.type === "approval.requested") {
      const show = "Show changes";
      const deny = event.options.find((one) => one.kind === "reject_once")?.name ?? "Deny";
      const allow = event.options.find((one) => one.kind === "allow_once")?.name ?? "Allow";
      const chosen = await vscode.window.showInformationMessage(`Roo asks: ${who}${event.title}`, show, deny, allow);
      if (chosen === show) await this.#guard(() => this.showDiff(event.approvalId));
      if (chosen === deny) await this.#guard(() => this.decide(event.approvalId, "reject_once"));
      if (chosen === allow) await this.#guard(() => this.decide(event.approvalId, "allow_once"));
    } else if (event.type === "question.asked") {
      const answer = "Answer…";
      const chosen = await vscode.window.showInformationMessage(`Roo asks: ${who}${event.text}`, answer);
      const { type: _type, ...question } = event;
      if (chosen === answer) await this.#guard(() => this.answer(question));
    }
  }

  async #guard(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      void vscode.window.showErrorMessage(`Roo: ${inWords(error)}`);
    }
  }

  /** What is shown, for menus and the badge. */
  #reflect(): void {
    const request = this.shown;
    const asks = this.waiting;
    void setContext("roo.active", request !== undefined && isActive(request));
    void setContext("roo.resumable", request !== undefined && isResumable(request));
    void setContext("roo.approvalPending", asks.some((one) => one.approval));
    this.#view?.badge(asks.length, `${asks.length} waiting for you`);
  }

  #updateContext(change: Partial<ChatContext>): void {
    this.#context = { ...this.#context, ...change };
    this.#post({ type: "context", context: this.#context });
  }

  #postState(): void {
    this.#post({ type: "state", request: this.shown, only: this.#only });
  }

  #post(message: ToPage): void {
    this.#view?.post(message);
  }

  #need(): Connection {
    const connection = this.#parts.connection();
    if (!connection?.isRunning) throw new Error("The server is not running; see Roo: Show Log.");
    return connection;
  }

  async #ask<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    return this.#need().request(method, params);
  }
}

/** The selection of an editor, as a place. */
export function selected(editor: vscode.TextEditor, connection: Connection): Place {
  const { document, selection } = editor;
  const name = vscode.workspace.asRelativePath(document.uri, false);
  const uri = connection.uri(document.uri);
  return selection.isEmpty
    ? { label: name, item: { uri } }
    : { label: `${name}:${lines(selection)}`, item: { uri, range: range(selection) } };
}

/** The lines of a range, counted from 1; one that ends where a line begins doesn't reach into it. */
function lines({ start, end }: Range): string {
  const last = end.character === 0 && end.line > start.line ? end.line : end.line + 1;
  return last > start.line + 1 ? `${start.line + 1}–${last}` : `${start.line + 1}`;
}

/** Asks the user for an answer: a suggestion, or words of their own. */
export async function answerTo(question: PendingQuestion): Promise<string | undefined> {
  const own = { label: "$(edit) Another answer…", own: true };
  const items = question.suggestions.map((one) => ({ label: one.text, description: one.mode ? `continues in ${one.mode}` : "", own: false }));
  const picked = items.length === 0 ? own : await vscode.window.showQuickPick([...items, own], { title: question.text, ignoreFocusOut: true });
  if (!picked?.own) return picked?.label;
  return vscode.window.showInputBox({ title: question.text, ignoreFocusOut: true });
}

function late({ accepted, by, interrupted }: { accepted: boolean; by: string; interrupted?: boolean }): void {
  if (accepted && interrupted) {
    void vscode.window.showInformationMessage("Roo: your answer is saved; the request is interrupted and can be resumed.");
  }
  if (!accepted) void vscode.window.showInformationMessage(`Roo: ${by} answered first.`);
}

async function setContext(key: string, value: boolean): Promise<void> {
  await vscode.commands.executeCommand("setContext", key, value);
}

/** Opens a link of a model: a web address outside, a file of the workspace in an editor, nothing else. */
async function openLink(href: string): Promise<void> {
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

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A failure, with what the user can do about it. */
export function inWords(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const data: unknown = error instanceof Object && "data" in error ? error.data : undefined;
  const hint = data instanceof Object && "hint" in data && typeof data.hint === "string" ? data.hint : "";
  return hint && !text.includes(hint) ? `${text} ${hint}` : text;
}
