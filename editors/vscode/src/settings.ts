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
