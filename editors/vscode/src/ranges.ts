// Positions as the server counts them: in UTF-16, as VS Code does. Pure.
import type { Position, Range } from "./protocol.ts";

/** A range, without what else the editor keeps of it. */
export function range({ start, end }: Range): Range {
  return { start: position(start), end: position(end) };
}

/** A position, without what else the editor keeps of it. */
export function position({ line, character }: Position): Position {
  return { line, character };
}
