// The commands "Roo: …". One that comes with an argument, as from a code action, goes to the server as it is;
// without one the user is asked for what is missing.
import * as vscode from "vscode";
import { showChanges } from "./changes.ts";
import type { Connection } from "./connection.ts";
import { selected, type Controller } from "./controller.ts";
import { afterRestart } from "./environment.ts";
import { inWords } from "./failures.ts";
import { accepts, type Intents } from "./intents.ts";
import type { Keys } from "./keys.ts";
import type { McpServers } from "./mcp.ts";
import type { Previews } from "./preview.ts";
import type { ContextItem, TaskStartParams, TreeNode } from "./protocol.ts";
import type { DiffReview, Target } from "./review.ts";
import { reviewRules } from "./rules.ts";
import type { Startup } from "./startup.ts";

/** What commands need. */
export interface Hands {
  readonly controller: Controller;
  readonly intents: Intents;
  readonly keys: Keys;
  readonly mcp: McpServers;
  readonly previews: Previews;
  readonly review: DiffReview;
  readonly log: vscode.LogOutputChannel;
  readonly startup: Startup;
  readonly connection: () => Connection | undefined;
  readonly restart: () => Promise<void>;
  /** Whether the server's requests live in the user's daemon. */
  readonly sharesDaemon: () => boolean;
}

type Run = (argument: unknown) => Promise<unknown>;

/** Registers all commands of the manifest. */
export function registerCommands(hands: Hands): vscode.Disposable {
  const { controller, intents, keys, mcp, previews, review, log } = hands;

  const connection = (): Connection => {
    const found = hands.connection();
    if (!found?.isRunning) throw new Error("The server is not running; see Roo: Show Log.");
    return found;
  };
  const isTyped = (): boolean => connection().isTyped;
  /** Runs a command of the server, for the request that is shown. */
  const forward = (name: string, argument?: unknown): Promise<unknown> => connection().execute(name, argument);
  const ofShown = (more: Record<string, unknown> = {}): unknown => {
    const taskId = controller.shown?.rootId;
    return taskId === undefined && Object.keys(more).length === 0 ? undefined : { ...(taskId && { taskId }), ...more };
  };

  const commands: Record<string, Run> = {
    "roo.newTask": async () => {
      if (isTyped()) return controller.begin();
      const prompt = await ask("Describe a task");
      return prompt && forward("roo.newTask", { prompt });
    },
    "roo.newTaskFromSelection": async () => {
      const editor = vscode.window.activeTextEditor;
      if (!editor) return void vscode.window.showInformationMessage("Roo: there is no editor with a selection.");
      if (isTyped()) return controller.addSelection(editor);
      const { label, item } = selected(editor, connection());
      const prompt = await ask(`Describe the task for ${label}`);
      return prompt && forward("roo.newTask", { prompt, context: [item] });
    },
    "roo.send": async () => {
      const text = await ask("Message the agent");
      return text && forward("roo.send", ofShown({ text }));
    },
    "roo.cancel": () => forward("roo.cancel", ofShown()),
    "roo.resume": () => forward("roo.resume", ofShown()),
    "roo.backgroundCommand": (argument) => forward("roo.backgroundCommand", isForServer(argument) ? argument : ofShown()),
    "roo.stopCommand": async (argument) => {
      if (isForServer(argument)) return forward("roo.stopCommand", argument);
      const running = Object.entries(controller.commands).map(([commandId, line]) => ({ label: commandId, description: line, commandId }));
      if (running.length === 0) return void vscode.window.showInformationMessage("Roo: no command of this task runs in the background.");
      const picked = await vscode.window.showQuickPick(running, { title: "Stop which command?" });
      return picked && forward("roo.stopCommand", ofShown({ commandId: picked.commandId }));
    },
    "roo.approve": (argument) =>
      isTyped() ? controller.decide(previews.approvalOf(argument), "allow_once") : forward("roo.approve"),
    "roo.reviewInRefactorPreview": async () => {
      if (!isTyped()) return forward("roo.reviewInRefactorPreview");
      const approval = controller.waiting.find((one) => one.approval?.reviewable)?.approval;
      if (!approval) return void vscode.window.showInformationMessage("Roo: no change of several files waits for permission.");
      return forward("roo.reviewInRefactorPreview", { approvalId: approval.approvalId });
    },
    "roo.deny": (argument) =>
      isTyped() ? controller.decide(previews.approvalOf(argument), "reject_once") : forward("roo.deny"),
    "roo.showDiff": async () => {
      if (!isTyped()) return forward("roo.showDiff");
      const approval = controller.waiting.find((one) => one.approval)?.approval;
      if (!approval) return void vscode.window.showInformationMessage("Roo: nothing waits for permission.");
      return controller.showDiff(approval.approvalId);
    },
    "roo.acceptChange": async (target) => review.accept(target as Target),
    "roo.refuseChange": (target) => review.refuse(target as Target),
    "roo.editChange": async (target) => review.edit(target as Target),
    "roo.answer": async () => {
      const question = controller.waiting.find((one) => one.question)?.question;
      if (isTyped()) {
        if (!question) return void vscode.window.showInformationMessage("Roo: no question waits for an answer.");
        return controller.answer(question);
      }
      const text = await ask("Your answer");
      return text && forward("roo.answer", { text });
    },
    "roo.switchMode": async () => {
      const modes = controller.choices.modes.map(({ slug, name, emoji, description }) => ({
        label: `${emoji} ${name}`.trim(),
        description: slug,
        detail: description ?? "",
        slug,
      }));
      const mode =
        modes.length > 0
          ? (await vscode.window.showQuickPick(modes, { title: "Continue the task in which mode?" }))?.slug
          : await ask("The slug of the mode");
      if (!mode) return undefined;
      return isTyped() ? controller.chooseMode(mode, controller.shown?.rootId) : forward("roo.switchMode", ofShown({ mode }));
    },
    "roo.selectProfile": async () => {
      if (isTyped()) return controller.pickProfile(controller.shown?.rootId);
      const profile = await ask("The name of the profile");
      return profile && forward("roo.selectProfile", ofShown({ profile }));
    },
    "roo.setUpModel": () => (isTyped() ? controller.setUp() : forward("roo.setUpModel")),
    "roo.nextApproval": () => controller.moveApproval(1),
    "roo.previousApproval": () => controller.moveApproval(-1),
    "roo.focusChat": () => controller.focus(),
    "roo.openTask": () => forward("roo.openTask", ofShown()),
    "roo.openHistory": () => (isTyped() ? controller.openHistory() : forward("roo.status")),
    "roo.status": async () => {
      const result = await forward("roo.status");
      if (isTyped() && result instanceof Object && "text" in result) {
        void vscode.window.showInformationMessage(`Roo: ${String(result.text)}`);
      }
      return result;
    },
    "roo.showTree": async () => (isTyped() ? vscode.commands.executeCommand("roo.tree.focus") : forward("roo.showTree")),
    "roo.trust": () => forward("roo.trust"),
    "roo.trustWorkspace": () => trust(connection(), controller),
    "roo.setApiKey": async () => {
      const profiles = vscode.workspace.getConfiguration("roo").inspect<Record<string, object>>("profiles")?.globalValue ?? {};
      if (await keys.set(profiles)) await offerRestart(hands);
    },
    "roo.removeApiKey": async () => {
      if (await keys.remove()) await offerRestart(hands);
    },
    "roo.restartServer": () => hands.restart(),
    "roo.showLog": async () => log.show(),
    "roo.openSettings": async () => vscode.commands.executeCommand("workbench.action.openSettings", "@ext:roo-lsp.roo-lsp"),
    "roo.openBranch": async (node) => {
      controller.showBranch(node as TreeNode);
      return vscode.commands.executeCommand("roo.chat.focus");
    },
    "roo.reviewRules": async () => (isTyped() ? reviewRules(connection()) : needsProtocol()),
    "roo.changes": async () => {
      if (!isTyped()) return needsProtocol();
      const taskId = controller.shown?.rootId;
      if (taskId === undefined) return void vscode.window.showInformationMessage("Roo: open the task whose changes you want to see.");
      return showChanges(connection(), previews, taskId);
    },
    "roo.mcpServers": async () => (isTyped() ? mcp.show(connection()) : needsProtocol()),
    "roo.openIntents": (row) => intents.open(intents.rowOf(row)),
    "roo.selectIntent": async (row) => {
      const selected = intents.rowOf(row);
      if (selected === undefined || selected.kind === "problem") return undefined;
      const { intent } = selected;
      const taskId = controller.shown?.rootId;
      if (taskId === undefined) return void vscode.window.showInformationMessage("Roo: open the request that should work on this intent, then select it.");
      if (!(await accepts(intent))) return undefined;
      await connection().request("roo/intent/select", { taskId, intentId: intent.intentId, digest: intent.digest });
      return intents.refresh();
    },
    "roo.cancelBranch": async (node) => connection().request("roo/task/cancel", { taskId: (node as TreeNode).id }),
  };

  const registered = Object.entries(commands).map(([name, run]) =>
    vscode.commands.registerCommand(name, async (argument: unknown) => {
      try {
        if (!SERVERLESS.has(name)) await hands.startup.over;
        if (!SERVERS.has(name) || !isForServer(argument)) return await run(argument);
        if (name === "roo.newTask" && isTyped()) {
          const params = described(argument);
          if (params) return await controller.startAs(params);
          // The prompt is still to be written: here in the chat, elsewhere in a document that the server opens.
          const about = placesAlone(argument);
          if (about) return await controller.addPlaces(about);
        }
        return await forward(name, argument);
      } catch (error) {
        const text = inWords(error);
        log.error(`${name}: ${text}`);
        // A plain client is told by the server itself.
        if (!hands.connection()?.isRunning || isTyped()) void vscode.window.showErrorMessage(`Roo: ${text}`);
        return undefined;
      }
    }),
  );
  return vscode.Disposable.from(...registered);
}

/** Commands that need no server; the others wait for one that is starting. */
const SERVERLESS = new Set(["roo.focusChat", "roo.setApiKey", "roo.removeApiKey", "roo.restartServer", "roo.showLog", "roo.openSettings"]);

/** Commands of the manifest that the server has as well. */
const SERVERS = new Set([
  "roo.newTask",
  "roo.openTask",
  "roo.send",
  "roo.approve",
  "roo.deny",
  "roo.answer",
  "roo.cancel",
  "roo.backgroundCommand",
  "roo.stopCommand",
  "roo.resume",
  "roo.status",
  "roo.showDiff",
  "roo.reviewInRefactorPreview",
  "roo.showTree",
  "roo.switchMode",
  "roo.selectProfile",
  "roo.trust",
  "roo.trustWorkspace",
]);

/** What the server's commands take. VS Code's menus hand over documents and contexts, which are none of its business. */
const FIELDS = ["prompt", "text", "taskId", "approvalId", "questionId", "optionId", "mode", "profile", "path", "context", "commandId"];

/** A request that an argument describes in full. */
function described(argument: unknown): TaskStartParams | undefined {
  if (typeof argument === "string") return { prompt: argument };
  return typeof argument === "object" && argument !== null && "prompt" in argument ? (argument as TaskStartParams) : undefined;
}

/** The places of a request that has no prompt yet. */
function placesAlone(argument: unknown): ContextItem[] | undefined {
  if (typeof argument !== "object" || argument === null || "prompt" in argument || !("context" in argument)) return undefined;
  return Array.isArray(argument.context) ? (argument.context as ContextItem[]) : undefined;
}

function isForServer(argument: unknown): boolean {
  if (typeof argument === "string" || typeof argument === "number") return true;
  if (typeof argument !== "object" || argument === null || argument instanceof vscode.Uri) return false;
  return FIELDS.some((field) => Object.hasOwn(argument, field));
}

/** The commands of the server that the manifest doesn't have, as code actions and lenses name them. */
export function registerServerCommands(connection: Connection, own: readonly string[]): vscode.Disposable {
  const more = connection.commands.filter((name) => !own.includes(name));
  return vscode.Disposable.from(
    ...more.map((name) => vscode.commands.registerCommand(name, (argument: unknown) => connection.execute(name, argument))),
  );
}

function needsProtocol(): void {
  void vscode.window.showInformationMessage("Roo: this needs the roo/* protocol, which is disabled (roo.protocol.enabled).");
}

async function ask(title: string): Promise<string | undefined> {
  return (await vscode.window.showInputBox({ title, ignoreFocusOut: true }))?.trim();
}

/** Keys are variables of the server. With other ones it belongs to another daemon. */
async function offerRestart({ restart, sharesDaemon }: Pick<Hands, "restart" | "sharesDaemon">): Promise<void> {
  const yes = "Restart";
  const chosen = await vscode.window.showInformationMessage(`The change takes effect when the server restarts. ${afterRestart(sharesDaemon())}`, yes);
  if (chosen === yes) await restart();
}

/** Shows what the workspace brings, and trusts it if the user says so. */
async function trust(connection: Connection, controller: Controller): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    // The editor's own trust comes first.
    await vscode.commands.executeCommand("workbench.trust.manage");
    return;
  }
  if (!connection.isTyped) return void (await connection.execute("roo.trustWorkspace"));
  const report = await connection.request("roo/trust/get", {});
  const yes = "Trust";
  if (!report.trusted) {
    const brings = report.brings.length > 0 ? `It contains files that steer agents: ${report.brings.join(", ")}.` : "It contains no files that steer agents yet.";
    const detail = `${brings} Modes, rules and commands of a trusted workspace steer agents.`;
    if ((await vscode.window.showWarningMessage("Trust this workspace?", { modal: true, detail }, yes)) !== yes) return;
    await connection.request("roo/trust/grant", {});
  }
  for (const { path, digest, kind, widens } of (await connection.request("roo/trust/get", {})).pendingApprovals) {
    if (kind === "delegation") {
      const [allow, refuse] = ["Let Them Delegate", "Don't"] as const;
      const question = `May the modes of ${path} delegate to each other?`;
      const answer = await vscode.window.showInformationMessage(question, { modal: true, detail: `If you allow it, ${widens.join("; ")}` }, allow, refuse);
      if (answer !== undefined) await connection.request("roo/trust/grant", { path, digest, refuse: answer === refuse });
      continue;
    }
    const detail = `${path} gives more than it had: ${widens.join("; ")}`;
    if ((await vscode.window.showWarningMessage(`Approve the current version of ${path}?`, { modal: true, detail }, yes)) !== yes) continue;
    await connection.request("roo/trust/grant", { path, digest });
  }
  await controller.refresh();
  void vscode.window.showInformationMessage("Roo: the workspace is trusted.");
}

