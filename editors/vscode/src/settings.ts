// The settings `roo.*`, and what of them goes to the server.
import { PROTOCOL_VERSION } from "./protocol.ts";

/** What VS Code tells of one setting. */
export interface Inspected {
  readonly defaultValue?: unknown;
  readonly globalValue?: unknown;
}

/** The server's settings, as keys of `initializationOptions`. */
export const SERVER_SETTINGS = [
  "mode",
  "profile",
  "profiles",
  "modes",
  "autoApprove",
  "protected",
  "intents",
  "limits",
  "sandbox",
  "redactSecrets",
  "systemContext",
] as const;

/**
 * The server's `initializationOptions`. They count as the user's own, so only the user's values are taken:
 * a workspace must not allow itself anything.
 */
export function initializationOptions(inspect: (key: string) => Inspected | undefined): { roo: Record<string, unknown> } {
  const roo: Record<string, unknown> = {};
  for (const key of SERVER_SETTINGS) {
    const value = inspect(key)?.globalValue;
    if (value !== undefined && value !== null) roo[key] = value;
  }
  if (own(inspect, "protocol.enabled") !== false) {
    roo["protocolVersion"] = PROTOCOL_VERSION;
    roo["documentSave"] = true;
  }
  return { roo };
}

/** The user's own value of a setting, or else its default. */
export function own(inspect: (key: string) => Inspected | undefined, key: string): unknown {
  const found = inspect(key);
  return found?.globalValue ?? found?.defaultValue;
}

/** Kinds of actions that the chat lets run without a question, or not. */
export type AutoApproveKey = "read" | "write" | "execute" | "mcp" | "delegate";
export type AutoApprove = Readonly<Record<AutoApproveKey, boolean>>;

/** The server's defaults of `autoApprove`. */
const USUAL: AutoApprove = { read: true, write: false, execute: false, mcp: false, delegate: true };

/**
 * What runs without a question by these layers of the setting `autoApprove`, the weaker ones first. `execute` is on
 * if commands that stay in the sandbox run.
 */
export function autoApproved(...layers: readonly unknown[]): AutoApprove {
  let allowed: AutoApprove = USUAL;
  for (const layer of layers) {
    if (typeof layer !== "object" || layer === null) continue;
    const values = layer as Record<string, unknown>;
    const flags = (["read", "write", "mcp", "delegate"] as const).filter((key) => typeof values[key] === "boolean");
    allowed = { ...allowed, ...Object.fromEntries(flags.map((key) => [key, values[key]])) };
    const execute = values["execute"];
    const mode: unknown = execute instanceof Object && "mode" in execute ? execute.mode : undefined;
    if (typeof mode === "string") allowed = { ...allowed, execute: mode === "confined" };
  }
  return allowed;
}

/** The user's setting `autoApprove` with one kind changed; what else it says stays. */
export function withAutoApprove(setting: unknown, key: AutoApproveKey, on: boolean): Record<string, unknown> {
  const before = typeof setting === "object" && setting !== null ? (setting as Record<string, unknown>) : {};
  if (key !== "execute") return { ...before, [key]: on };
  const execute = typeof before["execute"] === "object" && before["execute"] !== null ? before["execute"] : {};
  // What `allow` and presets name goes on running without a question.
  return { ...before, execute: { ...execute, mode: on ? "confined" : "rules" } };
}

/** What config.yaml says of `autoApprove`, in the output of `roo-lsp policy explain --json`; none where it is no such output. */
export function autoApproveOf(explained: string): unknown {
  let parsed: unknown;
  try {
    parsed = JSON.parse(explained);
  } catch {
    return undefined;
  }
  const settings: unknown = parsed instanceof Object && "settings" in parsed ? parsed.settings : undefined;
  if (!Array.isArray(settings)) return undefined;
  const values = new Map((settings as { key: string; value: unknown }[]).map(({ key, value }) => [key, value]));
  const flags = ["read", "write", "mcp", "delegate"].map((key) => [key, values.get(`autoApprove.${key}`)]);
  return { ...Object.fromEntries(flags), execute: { mode: values.get("autoApprove.execute.mode") } };
}
