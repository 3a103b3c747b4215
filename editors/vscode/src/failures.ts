// What the server says of a request that it refuses. Pure.
import type { ErrorData } from "./protocol.ts";

/** The kind of a failure; none of one that is not the server's. */
export function kindOf(error: unknown): ErrorData["kind"] | undefined {
  const data: unknown = error instanceof Object && "data" in error ? error.data : undefined;
  return data instanceof Object && "kind" in data ? (data.kind as ErrorData["kind"]) : undefined;
}

/** A failure, with what the user can do about it. */
export function inWords(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const data: unknown = error instanceof Object && "data" in error ? error.data : undefined;
  const hint = data instanceof Object && "hint" in data && typeof data.hint === "string" ? data.hint : "";
  return hint && !text.includes(hint) ? `${text} ${hint}` : text;
}
