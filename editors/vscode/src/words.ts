// What things are called on the page. Pure.
import type { ModelItem, TaskState, ToolStatus } from "./protocol.ts";
import { parsed, type CallItem, type Item } from "./state.ts";

/** How a state is shown: a sign besides the word, as colour alone says nothing to some. */
export const STATES: Record<TaskState, { sign: string; word: string }> = {
  running: { sign: "●", word: "running" },
  waiting: { sign: "?", word: "waiting for you" },
  paused: { sign: "‖", word: "waits for a branch" },
  interrupted: { sign: "!", word: "interrupted" },
  completed: { sign: "✓", word: "completed" },
  failed: { sign: "✗", word: "failed" },
  cancelled: { sign: "⊘", word: "cancelled" },
};

/** The same for calls. */
const STATUSES: Record<ToolStatus, { sign: string; word: string }> = {
  ok: { sign: "✓", word: "done" },
  failed: { sign: "✗", word: "failed" },
  denied: { sign: "⊘", word: "denied" },
  skipped: { sign: "–", word: "skipped" },
  interrupted: { sign: "!", word: "interrupted" },
};

/** How the end of a call is shown: one whose command failed has done its work, but not what was wanted of it. */
export function endOf(status: ToolStatus, exitCode: number | undefined): { sign: string; word: string; kind: string } {
  const failed = status === "ok" && exitCode !== undefined && exitCode !== 0;
  return failed ? { sign: "!", word: "failed", kind: "exited" } : { ...STATUSES[status], kind: status };
}

const DOING: Record<string, string> = {
  readFile: "Read",
  editedExistingFile: "Write",
  newFileCreated: "Write",
  appliedDiff: "Edit",
  searchAndReplace: "Edit",
  insertContent: "Insert into",
  listFilesTopLevel: "List",
  listFilesRecursive: "List all of",
  searchFiles: "Search for",
  codebaseSearch: "Search the code for",
  listCodeDefinitionNames: "List the definitions of",
  findReferences: "Find the references to",
  goToDefinition: "Find the definition of",
  hover: "Ask about",
  workspaceSymbols: "Find the symbols like",
  diagnostics: "Find the problems of",
  codeActions: "Find fixes for",
  applyCodeAction: "Apply the fix",
  renameSymbol: "Rename",
  viewDiff: "Show the changes of",
  runSlashCommand: "Load the command",
  fetchInstructions: "Load the instructions",
  readCommandOutput: "Read the output of",
  sendCommandInput: "Type",
  stopCommand: "Stop",
  searchMcpTools: "Search the tools of servers for",
  updateTodoList: "Update the to-do list",
  switchMode: "Switch mode to",
  skill: "Load the skill",
  selectActiveIntent: "Select the intent",
  requestScopeExpansion: "Ask for a wider scope",
  newTask: "Delegate to",
  askFollowupQuestion: "Ask you",
  browserAction: "Browser",
  generateImage: "Generate",
  finishTask: "Finish",
};

/** A call in a few words: what it does, and on what. */
export function describe(item: CallItem): { doing: string; subject: string } {
  if (item.ask === "command") return { doing: "Run", subject: item.text };
  if (item.streaming) {
    const [name = "", ...rest] = item.text.split("\n");
    return { doing: name.replaceAll("_", " ") || "…", subject: (rest[0] ?? "").slice(0, 120) };
  }
  const payload = parsed(item.text);
  const text = (key: string): string => (typeof payload[key] === "string" ? payload[key] : "");
  if (item.ask === "use_mcp_server") {
    const server = text("serverName");
    return text("uri") ? { doing: "Read", subject: `${text("uri")} of ${server}` } : { doing: "Call", subject: `${server}/${text("toolName")}` };
  }
  const tool = text("tool");
  const doing = entry(DOING, tool) ?? tool.replaceAll("_", " ");
  const files = payload["batchFiles"] ?? payload["batchDiffs"];
  if (Array.isArray(files) && files.length > 1) return { doing, subject: `${files.length} files` };
  const subject = entry(SUBJECTS, tool)?.(text, payload) ?? text("path");
  return { doing, subject: subject || text("error") };
}

/** What a table has for a name that comes from a model: nothing that every object has. */
function entry<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** What a call is about, for tools that are not about a path alone. */
const SUBJECTS: Record<string, (text: (key: string) => string, payload: Readonly<Record<string, unknown>>) => string> = {
  newTask: (text) => text("mode"),
  switchMode: (text) => text("mode"),
  browserAction: (text) => `${text("action")} ${text("url") || text("text") || text("size") || text("ref") || text("coordinate")}`.trim(),
  askFollowupQuestion: () => "",
  searchFiles: (text) => `${text("regex")} in ${[text("path"), text("filePattern")].filter(Boolean).join("/")}`,
  codebaseSearch: (text) => [text("query"), text("path")].filter(Boolean).join(" in "),
  workspaceSymbols: (text) => text("query"),
  searchMcpTools: (text) => text("query"),
  findReferences: symbolOf,
  goToDefinition: symbolOf,
  hover: symbolOf,
  renameSymbol: (text, payload) => `${text("symbol")} to ${text("newName")} in ${lineOf(text, payload)}`,
  codeActions: lineOf,
  applyCodeAction: (text, payload) => `${text("title")} in ${lineOf(text, payload)}`,
  viewDiff: (text) => text("path") || "the request",
  readCommandOutput: (text) => text("commandId"),
  sendCommandInput: (text) => `${text("input") || text("key")} at ${text("commandId")}`,
  stopCommand: (text) => text("commandId"),
  skill: (text) => text("skill"),
  runSlashCommand: (text) => `/${text("command")}`,
  fetchInstructions: (text) => text("content"),
  selectActiveIntent: (text) => text("intentId"),
  requestScopeExpansion: (_, payload) => (Array.isArray(payload["patterns"]) ? payload["patterns"].join(", ") : ""),
};

function lineOf(text: (key: string) => string, payload: Readonly<Record<string, unknown>>): string {
  return `${text("path")}:${String(payload["line"])}`;
}

function symbolOf(text: (key: string) => string, payload: Readonly<Record<string, unknown>>): string {
  return `${text("symbol")} in ${lineOf(text, payload)}`;
}

/** Whether an item's content is shown by another one: a question, a result. */
export function isSpokenFor(item: Item): boolean {
  if (item.kind !== "call" || item.ask !== undefined) return false;
  if (item.streaming) return /^(?:ask_followup_question|attempt_completion)\b/.test(item.text);
  return ["askFollowupQuestion", "finishTask"].includes(String(parsed(item.text)["tool"]));
}

/** A moment, for a history. */
export function when(at: number, now: number): string {
  const minutes = Math.round((now - at) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.round(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  return new Date(at).toISOString().slice(0, 10);
}

/** Tokens and costs, as far as there are any. */
export function cost(tokens: number, costUsd: number): string {
  const parts: string[] = [];
  if (tokens > 0) parts.push(`${count(tokens)} tokens`);
  if (costUsd > 0) parts.push(`$${costUsd.toFixed(costUsd < 0.1 ? 4 : 2)}`);
  return parts.join(" · ");
}

/** A number of tokens for a glance. */
export function count(tokens: number): string {
  if (tokens < 10_000) return String(tokens);
  if (tokens < 1_000_000) return `${Math.round(tokens / 1000)}k`;
  return `${Number((tokens / 1_000_000).toFixed(1))}M`;
}

/** What is known of a model: its window and its prices. */
export function modelFacts({ contextWindow, pricePerMillion, images, reasoning }: Pick<ModelItem, "contextWindow" | "pricePerMillion" | "images" | "reasoning">): string {
  const facts: string[] = [];
  if (contextWindow != null) facts.push(`${count(contextWindow)} context`);
  if (pricePerMillion) {
    const { input, output } = pricePerMillion;
    facts.push(input + output === 0 ? "free" : `$${input} in, $${output} out per million tokens`);
  }
  if (images) facts.push("images");
  if (reasoning) facts.push("reasoning");
  return facts.join(" · ");
}

/** Whether a text is a diff. */
export function isDiff(text: string): boolean {
  return /^(?:--- |diff --git )/.test(text);
}

/** Paths in the order in which they are offered: open ones first, then those whose name begins as asked, then shorter ones. */
export function ranked(paths: readonly string[], query: string, open: ReadonlySet<string>): readonly string[] {
  const sought = query.toLowerCase();
  const rank = (path: string): number => {
    const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
    return (open.has(path) ? 0 : 2) + (name.startsWith(sought) ? 0 : 1);
  };
  return paths.toSorted((a, b) => rank(a) - rank(b) || a.length - b.length || (a < b ? -1 : 1));
}

/** A text of somebody else's, without what a label would take for icons. */
export function plain(text: string): string {
  return text.replaceAll("$(", "$\u200b(");
}
