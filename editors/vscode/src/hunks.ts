// The changes of an edit (hunks), each of which can be answered by itself where the server offers them. Pure.
import type { Hunk, HunkAnswer, LineRange } from "./protocol.ts";

/** A change as it is shown: with the lines around it. */
export interface ShownHunk {
  readonly hunk: Hunk;
  readonly before: readonly string[];
  readonly removed: readonly string[];
  readonly added: readonly string[];
  readonly after: readonly string[];
}

/** The changes of one file. */
export interface ShownFile {
  readonly path: string;
  readonly hunks: readonly ShownHunk[];
}

/** The most lines of context on each side of a change. */
const CONTEXT = 3;

/** The changes of a file with the lines around them, no line twice. */
export function withContext(path: string, before: string, hunks: readonly Hunk[]): ShownFile {
  const lines = linesOf(before);
  let taken = 0;
  return {
    path,
    hunks: hunks.map((hunk, index) => {
      const next = hunks[index + 1]?.oldRange.start ?? lines.length;
      const { start, end } = hunk.oldRange;
      const above = lines.slice(Math.max(taken, start - CONTEXT), start);
      taken = Math.min(end + CONTEXT, next);
      return { hunk, before: above, removed: linesOf(hunk.oldText), added: linesOf(hunk.newText), after: lines.slice(end, taken) };
    }),
  };
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** A file as the decisions on its changes would leave it. */
export interface DecidedFile {
  readonly text: string;
  /** The lines that a change has in it, counted from 0, the end exclusive; by the ids of the changes. */
  readonly places: ReadonlyMap<string, LineRange>;
}

/** Carries out the decisions on the changes of a file. The others are as proposed. */
export function decided(before: string, hunks: readonly Hunk[], answers: readonly HunkAnswer[]): DecidedFile {
  const lines = before.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const pieces: string[] = [];
  const places = new Map<string, LineRange>();
  let taken = 0;
  let line = 0;
  const put = (text: string): void => {
    pieces.push(text);
    line += linesOf(text).length;
  };
  for (const hunk of hunks) {
    put(lines.slice(taken, hunk.oldRange.start).join(""));
    const start = line;
    put(chosen(hunk, answers.find((one) => one.hunkId === hunk.hunkId)));
    places.set(hunk.hunkId, { start, end: line });
    taken = hunk.oldRange.end;
  }
  put(lines.slice(taken).join(""));
  return { text: pieces.join(""), places };
}

function chosen(hunk: Hunk, answer: HunkAnswer | undefined): string {
  if (answer?.decision === "edit") return answer.text;
  return answer?.decision === "refuse" ? hunk.oldText : hunk.newText;
}
