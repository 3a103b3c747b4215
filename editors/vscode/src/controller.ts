// Carries out what the user wants in the chat, by commands and in notifications. All work is the server's.
import * as vscode from "vscode";
import type { ActiveEditor } from "./active-editor.ts";
import type { FromPage, Place, ChatContext, ToPage } from "./chat/messages.ts";
import type { ChatView } from "./chat/view.ts";
import type { Connection } from "./connection.ts";
import type { TaskCopies } from "./copies.ts";
import type { Decisions } from "./decisions.ts";
import { inWords, kindOf } from "./failures.ts";
import type { AnswerResult, ApprovalRespondParams, ContextItem, Event, EventParams, HistoryItem, ModelItem, PendingApproval, PendingQuestion, ProfileItem, PromptCompleteResult, Range, Requests, Settled, TaskId, TaskStartParams, TaskStartResult, TreeNode } from "./protocol.ts";
import { pickProfile } from "./profiles.ts";
import { isDiff } from "./words.ts";
import { autoApproved, initializationOptions, withAutoApprove, type AutoApproveKey } from "./settings.ts";
import type { Saved, Setup } from "./setup.ts";
import { range } from "./ranges.ts";
import { withContext } from "./hunks.ts";
import type { Previews } from "./preview.ts";
import { edit, restore } from "./restore.ts";
import type { DiffReview } from "./review.ts";
import type { Startup } from "./startup.ts";
import { isActive, isResumable, waiting, type Request, type Waiting } from "./state.ts";
import type { Store } from "./store.ts";

/** Which request was shown, for the next start of the editor. */
export const SHOWN = "roo.shownTask";
/** What was chosen last in this workspace, for new requests. */
const MODE = "roo.chosenMode";
const PROFILE = "roo.chosenProfile";
/** The most pages of the history that are asked for at once: a search should find what is old, too. */
const HISTORY_PAGES = 10;

/** What the page tells without asking anything of the server. */
const LOCAL: ReadonlySet<FromPage["type"]> = new Set(["ready", "focused", "inFront", "hunks", "copy", "insert", "settings", "removePlace", "link", "all"]);

/** The server, as far as it is asked here. */
export type Server = Pick<Connection, "request" | "notify" | "knows" | "isRunning" | "isTyped" | "uri" | "document">;

/** What the controller works with. Here it is the extension's; a page in a browser brings parts of its own (`web/main.ts`). */
export interface Parts {
  readonly context: Pick<vscode.ExtensionContext, "workspaceState">;
  readonly store: Store;
  readonly previews: Pick<Previews, "close" | "compare">;
  readonly copies: Pick<TaskCopies, "open">;
  readonly decisions: Decisions;
  readonly review: Pick<DiffReview, "open" | "close" | "onDidWantEdit">;
  readonly startup: Startup;
  readonly connection: () => Server | undefined;
  readonly log: Pick<vscode.LogOutputChannel, "warn">;
  readonly editor: ActiveEditor;
  /** Leads through the setup of a model. */
  readonly setUpModel: (given: Pick<Setup, "ask" | "profiles">) => Promise<Saved | undefined>;
  /** Restarts the server. */
  readonly restart: () => Promise<void>;
}

/** The view that shows it. */
export type View = Pick<ChatView, "post" | "isVisible" | "badge" | "onDidHide">;

/** The user's hand. */
export class Controller {
  readonly #parts: Parts;
  #view: View | undefined;
  #only: TaskId | undefined;
  #places: Place[] = [];
  #cursor: string | undefined;
  /** The approval that the page shows in front. */
  #inFront: string | undefined;
  /** The keys for `when` clauses, as they were set last. */
  readonly #contextKeys = new Map<string, boolean>();
  /** What each approval that waits is about. */
  readonly #digests = new Map<string, string>();
  /** What a notification has asked about. */
  readonly #notified = new Set<string>();
  /** The profiles whose models were asked for. */
  readonly #asked = new Set<string>();
  /** The requests that were interrupted by a restart that the user wanted; they go on after it. */
  readonly #resume: TaskId[] = [];
  /** The approvals that were opened in full. */
  readonly #opened = new Set<string>();
  #context: ChatContext = {
    problem: "The server is starting…",
    modes: [],
    profiles: [],
    commands: [],
    defaultMode: "new-task",
    defaultProfile: undefined,
    models: {},
    autoApprove: undefined,
    restartPending: false,
    places: [],
    canRestore: false,
    canEdit: false,
    untrusted: [],
  };

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.store.onDidReset(() => {
      this.#only = undefined;
      this.#reflect();
      this.#postState();
    });
    parts.store.onDidApply((params) => this.#applied(params));
    parts.store.onDidTake(({ event }) => this.#followApprovals(event));
    parts.review.onDidWantEdit(({ approvalId, hunkId }) => {
      // The field takes the focus from the view, which must have it by then.
      void vscode.commands.executeCommand("roo.chat.focus").then(() => this.#post({ type: "editHunk", approvalId, hunkId }));
    });
    parts.decisions.onDidChange(({ approvalId, by }) => {
      if (by === "diff") this.#post({ type: "decided", approvalId, answers: parts.decisions.of(approvalId) });
    });
    parts.store.onDidCatchUp(() => this.#notifyWaiting());
    parts.store.onDidChange(() => {
      this.#reflect();
      // What is replayed may be long over: what still waits at its end is told then.
      this.#notifyWaiting();
      this.#restartIfIdle();
    });
  }

  /** Shows all of it in this view. */
  bind(view: View): void {
    this.#view = view;
    view.onDidHide(() => {
      // Nothing is in front of a chat that can't be seen.
      this.#inFront = undefined;
      void this.#setContext("roo.chatFocused", false);
      this.#notifyWaiting();
    });
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
      if (shown) await this.#showOrCopy(shown.taskId, shown.title);
    }
    await this.refresh();
    for (const taskId of this.#resume.splice(0)) await this.#ask("roo/task/resume", { taskId }).catch(() => {});
  }

  /** Shows a request. What another window or daemon works on can only be read here; others can be begun all the same. */
  async #showOrCopy(taskId: TaskId, title: string): Promise<void> {
    const before = this.shown?.rootId;
    try {
      await this.show(taskId);
    } catch (error) {
      this.#parts.log.warn(`The task ${taskId} can't be shown: ${inWords(error)}`);
      this.#parts.store.forget(taskId);
      await this.show(before);
      if (kindOf(error) !== "heldElsewhere") throw error;
      const read = "Read It";
      const text = `Roo: another window or daemon works on the task “${title}”. You can read it here, and start another one.`;
      void vscode.window.showInformationMessage(text, read).then((chosen) => {
        if (chosen === read) void this.#guard(() => this.#parts.copies.open(taskId, title));
      });
    }
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
    const { workspaceState } = this.#parts.context;
    // What was chosen here may be gone since.
    const mode = modes.modes.find((one) => one.slug === workspaceState.get<string>(MODE))?.slug;
    const profile = profiles.profiles.find((one) => one.name === workspaceState.get<string>(PROFILE))?.name;
    this.#updateContext({
      problem: undefined,
      modes: modes.modes,
      profiles: profiles.profiles,
      commands: commands.commands,
      defaultMode: mode ?? modes.defaultMode,
      defaultProfile: profile,
      canRestore: this.#need().knows("roo/checkpoint/restore"),
      canEdit: this.#need().knows("roo/task/edit"),
      untrusted: trust.trusted ? trust.pendingApprovals.filter((one) => one.kind !== "delegation").map((one) => one.path) : trust.brings,
    });
    await this.#readAutoApprove();
  }

  /** Answers the page. */
  async respond(message: FromPage): Promise<void> {
    try {
      // What is asked of a server that is starting waits for it.
      if (!LOCAL.has(message.type)) await this.#parts.startup.over;
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
        if (this.#context.profiles.length === 0) {
          // The user gets the text back, and sends it when there is a model.
          this.#post({ type: "failed", what: "start", message: "No model is set up yet." });
          return this.setUp();
        }
        return void (await this.start(message.prompt, message.images, message.mode));
      case "send":
        await this.#ask("roo/task/send", { taskId: message.taskId, text: message.text, images: [...message.images], when: message.when });
        return this.#post({ type: "taken", taskId: message.taskId });
      case "cancel":
        return void (await this.#ask("roo/task/cancel", { taskId: message.taskId }));
      case "resume":
        return void (await this.#ask("roo/task/resume", { taskId: message.taskId }));
      case "open":
        return this.#showOrCopy(message.taskId, message.title);
      case "undoShortening":
        return void (await this.#ask("roo/context/restore", { taskId: message.taskId, seq: message.seq }));
      case "restore": {
        const fork = await restore(this.#need(), this.#parts.previews, message.taskId, message.seq);
        if (fork) await this.show(fork);
        return;
      }
      case "edit": {
        const { taskId, messageId, text, images } = message;
        return edit(this.#need(), this.#parts.previews, { taskId, messageId, text, images: [...images] });
      }
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
      case "answer": {
        const { questionId, text, images = [] } = message;
        await this.#answered(await this.#ask("roo/question/answer", { questionId, text, images: [...images] }), this.shown?.rootId);
        return this.shown && this.#post({ type: "taken", taskId: this.shown.rootId });
      }
      case "showDiff":
        return this.showDiff(message.approvalId);
      case "editQueued":
        return void (await this.#ask("roo/queue/edit", { taskId: message.taskId, itemId: message.itemId, text: message.text }));
      case "deleteQueued":
        return void (await this.#ask("roo/queue/delete", { taskId: message.taskId, itemId: message.itemId }));
      case "chooseMode":
        return this.chooseMode(message.mode, message.taskId);
      case "chooseProfile":
        return this.pickProfile(message.taskId);
      case "focused":
        await this.#setContext("roo.chatFocused", message.on);
        return this.#post({ type: "keys", on: message.on });
      case "inFront":
        this.#inFront = message.approvalId;
        return this.#showHunks(message.approvalId);
      case "hunks":
        return this.#parts.decisions.set(message.approvalId, message.answers, "chat");
      case "autoApprove":
        return this.#setAutoApprove(message.key, message.on);
      case "copy":
        return vscode.env.clipboard.writeText(message.text);
      case "insert":
        return this.#parts.editor.insert(message.text, message.language);
      case "settings":
        return void (await vscode.commands.executeCommand("workbench.action.openSettings", message.query));
      case "rules":
        return void (await vscode.commands.executeCommand("roo.reviewRules"));
      case "setUp":
        return this.setUp();
      case "restart":
        return this.restartAndResume();
      case "removePlace":
        this.#places = this.#places.toSpliced(message.index, 1);
        return this.#updateContext({ places: this.#places });
      case "complete":
        return this.#post({ type: "completions", prompt: message.prompt, completions: await this.#complete(message.prompt) });
      case "link":
        return this.#parts.editor.openLink(message.href);
      case "trust":
        return void (await vscode.commands.executeCommand("roo.trustWorkspace"));
      default:
        // A page of an older or newer extension.
        return message satisfies never;
    }
  }

  /** Starts a request with the places that were collected, and shows it. */
  async start(prompt: string, images: readonly string[], mode?: string): Promise<TaskId> {
    const context = this.#places.map((place) => place.item);
    const { taskId } = await this.#start({ prompt, context, images: [...images], ...(mode !== undefined && { mode }) });
    this.#places = [];
    this.#updateContext({ places: [] });
    this.#post({ type: "taken", taskId });
    await this.show(taskId);
    return taskId;
  }

  /** Starts a request that is described in full, as by a code action, and shows it. */
  async startAs(params: TaskStartParams): Promise<TaskStartResult> {
    const result = await this.#start(params);
    await this.show(result.taskId);
    return result;
  }

  /** Starts a request, with the mode and the profile that were chosen in the chat where it names none. */
  async #start(params: TaskStartParams): Promise<TaskStartResult> {
    const { modes, defaultMode: mode, defaultProfile: profile } = this.#context;
    return this.#ask("roo/task/start", { ...(modes.length > 0 && { mode }), ...(profile !== undefined && { profile }), ...params });
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
    await this.focus();
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
    await this.focus();
    // The mode that a new request begins with may have been changed in a file.
    if (this.#connected) await this.refresh();
  }

  /** Gives the composer the focus. */
  async focus(): Promise<void> {
    await vscode.commands.executeCommand("roo.chat.focus");
    this.#post({ type: "focus" });
  }

  /** Brings the approval behind the one in front to the front, or the one before it. */
  async moveApproval(by: number): Promise<void> {
    // To focus what has the focus would take it away for a moment, and the next key with it.
    if (this.#contextKeys.get("roo.chatFocused") !== true) await vscode.commands.executeCommand("roo.chat.focus");
    this.#post({ type: "move", by });
  }

  /** Switches the mode of a request, and of new ones in this workspace. */
  async chooseMode(mode: string, taskId: TaskId | undefined): Promise<void> {
    if (taskId !== undefined) await this.#ask("roo/mode/switch", { taskId, mode });
    await this.#parts.context.workspaceState.update(MODE, mode);
    this.#updateContext({ defaultMode: mode });
  }

  /** Asks which profile a request should go on with, and new ones in this workspace begin with. */
  async pickProfile(taskId: TaskId | undefined): Promise<void> {
    const { profiles } = this.#context;
    if (profiles.length === 0) return this.setUp();
    const picked = await pickProfile(profiles, this.#context.models, (profile) => this.#learnModel(profile));
    if (picked === "setUp") return this.setUp();
    if (picked === undefined) return;
    const { profile } = picked;
    if (taskId !== undefined) await this.#ask("roo/profile/select", { taskId, profile });
    await this.#parts.context.workspaceState.update(PROFILE, profile);
    this.#updateContext({ defaultProfile: profile });
  }

  /** Leads through the setup of a model, and uses it from then on. */
  async setUp(): Promise<void> {
    const connection = this.#need();
    const { profiles } = await this.#ask("roo/profile/list", {});
    const saved = await this.#parts.setUpModel({ ask: (method, params) => connection.request(method, params), profiles });
    if (!saved) return;
    await this.#parts.context.workspaceState.update(PROFILE, saved.profile);
    await this.refresh();
    void vscode.window.showInformationMessage(`Roo: ${saved.summary}`);
    if (saved.needsRestart) await this.restartNeeded();
  }

  /** The user's settings have changed, and the server can take them over as it runs. */
  async optionsChanged(): Promise<void> {
    // One that is starting may have read them before.
    await this.#parts.startup.over;
    const connection = this.#parts.connection();
    if (connection?.isRunning && !connection.knows("roo/options/didChange")) return this.restartNeeded();
    this.#sendOptions();
  }

  /** The settings that count have changed, whoever changed them. */
  async settingsChanged(): Promise<void> {
    if (this.#connected) await this.refresh();
  }

  #sendOptions(): void {
    const settings = vscode.workspace.getConfiguration("roo");
    if (this.#connected) this.#parts.connection()?.notify("roo/options/didChange", { options: initializationOptions((key) => settings.inspect(key)) });
  }

  /** What the server learns only at its start has changed: it is restarted as soon as nothing runs. */
  async restartNeeded(text = "Roo: the changed setting takes effect when the server restarts."): Promise<void> {
    const connection = this.#parts.connection();
    if (connection?.isRunning && !connection.isTyped) {
      // What runs in plain LSP isn't known here.
      const yes = "Restart";
      if ((await vscode.window.showInformationMessage(text, yes)) === yes) await this.#parts.restart();
      return;
    }
    this.#updateContext({ restartPending: true });
    this.#restartIfIdle();
  }

  /** The workspace has other folders. The server works in those of its start. */
  async foldersChanged(): Promise<void> {
    await this.restartNeeded("Roo: agents work in the changed folders when the server restarts.");
    if (!this.#context.restartPending) return;
    void vscode.window.showInformationMessage("Roo: agents work in the changed folders when the server restarts, as soon as no task runs.");
  }

  /** Restarts the server, and lets the requests go on that this interrupts. */
  async restartAndResume(): Promise<void> {
    this.#resume.push(...[...this.#parts.store.all].filter(isActive).map((request) => request.rootId));
    this.#updateContext({ restartPending: false });
    await this.#parts.restart();
  }

  get #connected(): boolean {
    return this.#parts.connection()?.isTyped === true;
  }

  #restartIfIdle(): void {
    if (!this.#context.restartPending) return;
    const isBusy = (request: Request): boolean => isActive(request) || Object.keys(request.commands).length > 0;
    if ([...this.#parts.store.all].some(isBusy)) return;
    this.#updateContext({ restartPending: false });
    void this.#parts.restart();
  }

  /** What runs without a question, as the server has it. */
  async #readAutoApprove(): Promise<void> {
    if (!this.#need().knows("roo/autoApprove/get")) return;
    const { settings } = await this.#ask("roo/autoApprove/get", {});
    this.#updateContext({ autoApprove: autoApproved(settings) });
  }

  async #setAutoApprove(key: AutoApproveKey, on: boolean): Promise<void> {
    const settings = vscode.workspace.getConfiguration("roo");
    await settings.update("autoApprove", withAutoApprove(settings.inspect("autoApprove")?.globalValue, key, on), vscode.ConfigurationTarget.Global);
    // The answer is to tell of the new setting, whether or not the editor has reported the change yet.
    this.#sendOptions();
    await this.#readAutoApprove();
    if (this.#context.autoApprove?.[key] !== on) throw new Error("The setting is saved, but the workspace's settings take precedence and are stricter.");
  }

  /** Asks once what is known of a profile's model; its endpoint is asked. */
  async #learnModel(profile: ProfileItem): Promise<ModelItem | undefined> {
    if (this.#asked.has(profile.name) || profile.model == null || !this.#connected) return this.#context.models[profile.name];
    this.#asked.add(profile.name);
    const { models } = await this.#ask("roo/model/list", { profile: profile.name }).catch(() => ({ models: [] }));
    const model = models.find((one) => one.id === profile.model);
    if (model) this.#updateContext({ models: { ...this.#context.models, [profile.name]: model } });
    return model;
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
    await this.#parts.review.open(approval, preview.files);
    this.#opened.add(approvalId);
  }

  /** Answers an approval with its first option of a kind. */
  async decide(approvalId: string | undefined, kind: "allow_once" | "reject_once"): Promise<void> {
    const inFront = this.#inFront;
    // The page knows what was typed into the card and decided on its changes, and whether it still shows that card.
    if (approvalId === undefined && inFront !== undefined) return this.#post({ type: "decide", approvalId: inFront, kind });
    const approval = approvalId === undefined ? this.waiting.find((one) => one.approval)?.approval : this.#approval(approvalId);
    const option = approval?.options.find((one) => one.kind === kind);
    if (!approval || !option) {
      const why = approvalId === undefined ? "nothing waits for permission." : "this has already been answered.";
      return void vscode.window.showInformationMessage(`Roo: ${why}`);
    }
    return this.#decide({ approvalId: approval.approvalId, digest: approval.digest, optionId: option.id });
  }

  /** Answers an approval. What is too long for a glance is opened before it can be allowed. */
  async #decide(answer: ApprovalRespondParams): Promise<void> {
    const approval = this.#approval(answer.approvalId);
    // Once it is answered, nothing says whose it was.
    const rootId = this.#requestOf(answer.approvalId);
    const kind = approval?.options.find((one) => one.id === answer.optionId)?.kind;
    const allows = kind?.startsWith("allow");
    const hunks = kind === "allow_once" ? this.#parts.decisions.of(answer.approvalId) : undefined;
    const opened = this.#opened.has(answer.approvalId);
    if (approval?.mustOpen && allows && !opened) {
      await this.showDiff(approval.approvalId);
      return void vscode.window.showInformationMessage("Roo: this is too long to approve from its summary. Review all of it, then allow it.");
    }
    await this.#answered(await this.#ask("roo/approval/respond", { ...answer, ...(opened && { opened }), ...(hunks && hunks.length > 0 && { hunks: [...hunks] }) }), rootId);
  }

  /** Shows the changes of an edit one by one, if the server takes an answer to each. */
  async #showHunks(approvalId: string | undefined): Promise<void> {
    const approval = approvalId === undefined ? undefined : this.#approval(approvalId);
    if (approvalId === undefined || !approval || !isDiff(approval.subject) || !this.#need().knows("roo/approval/preview")) return;
    // What has been answered meanwhile has no preview any more.
    const { files } = await this.#ask("roo/approval/preview", { approvalId }).catch(() => ({ files: [] }));
    const shown = files.map((file) => withContext(vscode.workspace.asRelativePath(this.#need().document(file.uri), false), file.before ?? "", file.hunks ?? []));
    if (!shown.some((file) => file.hunks.length > 0)) return;
    this.#post({ type: "hunks", approvalId, files: shown, answers: this.#parts.decisions.of(approvalId) });
  }

  /** Answers a question; asks for the answer. */
  async answer(question: PendingQuestion): Promise<void> {
    const text = await answerTo(question);
    // Once it is answered, nothing says whose it was.
    const rootId = this.#requestOf(question.questionId);
    if (text) await this.#answered(await this.#ask("roo/question/answer", { questionId: question.questionId, text }), rootId);
  }

  /** Goes on with a request that was interrupted while it waited: whoever answers wants that. Says so if somebody was faster. */
  async #answered({ accepted, by, interrupted, waits, settled }: AnswerResult, rootId: TaskId | undefined): Promise<void> {
    if (waits) return void vscode.window.showInformationMessage("Roo: earlier turns are summarised before the next model request. The question still waits.");
    if (!accepted) return void vscode.window.showInformationMessage(`Roo: ${late(by, settled ?? undefined)}`);
    if (!interrupted || rootId === undefined) return;
    await this.#ask("roo/task/resume", { taskId: rootId }).catch((error: unknown) => {
      // The user was faster.
      if (kindOf(error) !== "wrongState") throw error;
    });
  }

  /** The request in which this approval or question waits. */
  #requestOf(id: string): TaskId | undefined {
    return [...this.#parts.store.all].find((request) => waiting(request).some((one) => idOf(one) === id))?.rootId;
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
    const { keptWorktrees = [] } = await this.#ask("roo/task/delete", { taskId });
    const kept = keptWorktrees.map(({ path, reason }) => `${path} (${reason})`);
    if (kept.length > 0) void vscode.window.showInformationMessage(`Roo: worktrees of its branches are kept: ${kept.join(", ")}`);
    this.#parts.store.forget(taskId);
    await this.#history(false);
  }

  async #history(more: boolean): Promise<void> {
    const items: HistoryItem[] = [];
    let cursor = more ? this.#cursor : undefined;
    for (let page = 0; page < HISTORY_PAGES; page += 1) {
      const answer = await this.#ask("roo/task/list", cursor ? { cursor } : {});
      items.push(...answer.items);
      cursor = answer.nextCursor ?? undefined;
      if (cursor === undefined) break;
    }
    this.#cursor = cursor;
    this.#post({ type: "history", items, more: cursor !== undefined, appended: more });
  }

  /** What the end of a prompt may become: by the server, or else the files that the editor finds. */
  async #complete(prompt: string): Promise<PromptCompleteResult> {
    if (this.#need().knows("roo/prompt/complete")) return this.#ask("roo/prompt/complete", { prompt });
    const replaced = /@\S*$/.exec(prompt)?.[0] ?? "";
    const items = replaced === "" ? [] : (await this.#parts.editor.files(replaced.slice(1))).map((path) => ({ text: /\s/.test(path) ? `@"${path}"` : `@${path}`, kind: "file" as const }));
    return { replaced, items, isIncomplete: true };
  }

  #applied(params: EventParams): void {
    // Before the page shows what is asked, the keys that answer it count.
    this.#reflect();
    this.#post({ type: "event", params });
    if (params.event.type === "usage") {
      const used = this.shown?.tasks[params.taskId]?.profile;
      const profile = this.#context.profiles.find((one) => (used === undefined ? one.isDefault : one.name === used));
      if (profile) void this.#learnModel(profile);
    }
  }

  /** Ends the review of what was answered, or is asked again about something else: its diff may be open whichever request is shown. */
  #followApprovals(event: Event): void {
    if (event.type === "approval.requested") {
      if ((this.#digests.get(event.approvalId) ?? event.digest) !== event.digest) this.#forget(event.approvalId);
      this.#digests.set(event.approvalId, event.digest);
    }
    if (event.type === "approval.resolved") this.#forget(event.approvalId);
  }

  /** Ends the review of an approval, and all that was decided in it. */
  #forget(approvalId: string): void {
    this.#parts.decisions.forget(approvalId);
    this.#opened.delete(approvalId);
    this.#parts.review.close(approvalId);
    void this.#parts.previews.close(approvalId);
  }

  /** A notification for each thing that waits, if it can't be seen; one for each, however often it is heard of. */
  #notifyWaiting(): void {
    const { store } = this.#parts;
    const when = vscode.workspace.getConfiguration("roo").get<string>("notifications");
    for (const request of store.all) {
      const isShown = request.rootId === this.shown?.rootId;
      if (!store.isCaughtUp(request.rootId) || (!isShown && !isActive(request))) continue;
      for (const one of waiting(request)) {
        const id = idOf(one);
        if (when === "never" || this.#notified.has(id) || (when !== "always" && isShown && this.#view?.isVisible)) continue;
        this.#notified.add(id);
        void this.#notify(request, one);
      }
    }
  }

  async #notify(request: Request, { task, approval, question }: Waiting): Promise<void> {
    const node = request.nodes.find((one) => one.id === task.id);
    const who = node && node.parentId ? `${node.emoji} ${node.title}: ` : "";
    const isShown = request.rootId === this.shown?.rootId;
    // Another window or program may have started it.
    const where = isShown ? "" : ` in “${request.title}”`;
    const showTask = "Show Task";
    const others = isShown ? [] : [showTask];
    let chosen: string | undefined;
    if (approval) {
      const show = "Show changes";
      const deny = approval.options.find((one) => one.kind === "reject_once")?.name ?? "Deny";
      const allow = approval.options.find((one) => one.kind === "allow_once")?.name ?? "Allow";
      chosen = await vscode.window.showInformationMessage(`Roo asks${where}: ${who}${approval.title}`, ...others, show, deny, allow);
      if (chosen === show) await this.#guard(() => this.showDiff(approval.approvalId));
      if (chosen === deny) await this.#guard(() => this.decide(approval.approvalId, "reject_once"));
      if (chosen === allow) await this.#guard(() => this.decide(approval.approvalId, "allow_once"));
    } else if (question) {
      const answer = "Answer…";
      chosen = await vscode.window.showInformationMessage(`Roo asks${where}: ${who}${question.text}`, ...others, answer);
      if (chosen === answer) await this.#guard(() => this.answer(question));
    }
    if (chosen === showTask) {
      await this.#guard(async () => {
        await this.show(request.rootId);
        await this.focus();
      });
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
    void this.#setContext("roo.active", request !== undefined && isActive(request));
    void this.#setContext("roo.resumable", request !== undefined && isResumable(request));
    void this.#setContext("roo.approvalPending", asks.some((one) => one.approval));
    this.#view?.badge(asks.length, `${asks.length} waiting for you`);
  }

  /** Sets a key for `when` clauses; settled when the editor has it. */
  async #setContext(key: string, value: boolean): Promise<void> {
    if (this.#contextKeys.get(key) === value) return;
    this.#contextKeys.set(key, value);
    await vscode.commands.executeCommand("setContext", key, value);
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

  #need(): Server {
    const connection = this.#parts.connection();
    if (!connection?.isRunning) throw new Error("The server is not running; see Roo: Show Log.");
    return connection;
  }

  async #ask<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    return this.#need().request(method, params);
  }
}

/** The selection of an editor, as a place. */
export function selected(editor: vscode.TextEditor, connection: Pick<Connection, "uri">): Place {
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
  return vscode.window.showInputBox({ title: question.text, password: question.secret === true, ignoreFocusOut: true });
}

/** The id of the approval or the question that waits. */
function idOf({ approval, question }: Waiting): string {
  return approval?.approvalId ?? question?.questionId ?? "";
}

/** Why an answer came too late. */
function late(by: string, settled: Settled | undefined): string {
  if (settled?.kind === "rule") return `the standing rule ${settled.ruleId} has decided this already; “Roo: Review Standing Rules…” shows it.`;
  if (settled?.kind === "void") return "this is no longer asked.";
  return `${by} answered first.`;
}
