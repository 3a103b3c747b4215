// The settings `roo.*`, and what of them goes to the server.
import { PROTOCOL_VERSION, type AutoApproveItem } from "./protocol.ts";

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
  "delegation",
  "limits",
  "sandbox",
  "browser",
  "redactSecrets",
  "systemContext",
  "index",
  "imageGeneration",
  "ipcSocket",
  "daemon",
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
    roo["codeAsk"] = true;
  }
  return { roo };
}

/** What the server learns only at its start: which program it is, its environment, and whether it speaks `roo/*`. */
const AT_START = ["roo.server", "roo.protocol"];

/** What has to be done about a change of settings: restart the server, or tell it of its new options. */
export function effectOf(affects: (section: string) => boolean): "restart" | "options" | undefined {
  if (AT_START.some(affects)) return "restart";
  return SERVER_SETTINGS.some((key) => affects(`roo.${key}`)) ? "options" : undefined;
}

/** The user's own value of a setting, or else its default. */
export function own(inspect: (key: string) => Inspected | undefined, key: string): unknown {
  const found = inspect(key);
  return found?.globalValue ?? found?.defaultValue;
}

/** Kinds of actions that the chat lets run without a question, or not. */
export type AutoApproveKey = "read" | "write" | "execute" | "mcp" | "delegate";
export type AutoApprove = Readonly<Record<AutoApproveKey, boolean>>;

/** What runs without a question. `execute` is on if commands that stay in the sandbox run. */
export function autoApproved(settings: readonly AutoApproveItem[]): AutoApprove {
  const values = new Map(settings.map(({ key, value }) => [key, value]));
  const isOn = (key: string): boolean => values.get(key) === true;
  return { read: isOn("read"), write: isOn("write"), execute: values.get("execute.mode") === "confined", mcp: isOn("mcp"), delegate: isOn("delegate") };
}

/** The user's setting `autoApprove` with one kind changed; what else it says stays. */
export function withAutoApprove(setting: unknown, key: AutoApproveKey, on: boolean): Record<string, unknown> {
  const before = typeof setting === "object" && setting !== null ? (setting as Record<string, unknown>) : {};
  if (key !== "execute") return { ...before, [key]: on };
  const execute = typeof before["execute"] === "object" && before["execute"] !== null ? before["execute"] : {};
  // What `allow` and presets name goes on running without a question.
  return { ...before, execute: { ...execute, mode: on ? "confined" : "rules" } };
}
