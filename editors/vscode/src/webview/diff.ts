// A unified diff by files and hunks. Lines are told apart by their signs, and by colour besides; long ones wrap.
import { h } from "./dom.ts";

/** One hunk: the lines below an `@@`. */
export interface Hunk {
  /** The first line after the change, counted from 1; none where no `@@` says it. */
  readonly line: number | undefined;
  readonly lines: readonly string[];
}

/** One file of a diff. */
export interface FileDiff {
  /** Its path after the change, or before it if the change deletes the file. */
  readonly path: string;
  readonly hunks: readonly Hunk[];
  /** Lines that belong to no hunk, such as a rename. */
  readonly notes: readonly string[];
}

interface OpenHunk {
  line: number | undefined;
  lines: string[];
  /** Lines that are still to come, before and after the change. */
  before: number;
  after: number;
}

/** The files of a unified diff. A line within a hunk is content, whatever it looks like. */
export function parseDiff(text: string): readonly FileDiff[] {
  const files: { path: string; hunks: OpenHunk[]; notes: string[] }[] = [];
  let open: OpenHunk | undefined;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (open && (open.before > 0 || open.after > 0)) {
      if (!line.startsWith("+") && !line.startsWith("\\")) open.before -= 1;
      if (!line.startsWith("-") && !line.startsWith("\\")) open.after -= 1;
      open.lines.push(line);
      continue;
    }
    const file = files.at(-1);
    const place = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (line.startsWith("--- ")) {
      files.push({ path: pathOf(line), hunks: [], notes: [] });
      open = undefined;
    } else if (line.startsWith("+++ ") && file) {
      if (pathOf(line) !== "") file.path = pathOf(line);
    } else if (place && file) {
      open = { line: Number(place[2]), lines: [], before: Number(place[1] ?? 1), after: Number(place[3] ?? 1) };
      file.hunks.push(open);
    } else if (open && line.startsWith("\\")) {
      open.lines.push(line);
    } else if (file) {
      file.notes.push(line);
    } else {
      files.push({ path: "", hunks: [], notes: [line] });
    }
  }
  return files;
}

function pathOf(line: string): string {
  const path = line.slice(4).replace(/\t.*$/, "");
  return path === "/dev/null" ? "" : path.replace(/^[ab]\//, "");
}

/** How many lines a diff adds and removes. */
export function changedLines(files: readonly FileDiff[]): { added: number; removed: number } {
  const lines = files.flatMap((file) => file.hunks.flatMap((hunk) => hunk.lines));
  return { added: lines.filter((line) => line.startsWith("+")).length, removed: lines.filter((line) => line.startsWith("-")).length };
}

/** A diff, as it is read. */
export function diff(text: string): HTMLElement {
  return changes(parseDiff(text), ({ line, lines }, { hunks }) =>
    h(
      "div",
      { class: "hunk" },
      line !== undefined && (hunks.length > 1 || line > 1) && h("div", { class: "place" }, `Line ${line}`),
      h("pre", {}, ...lines.map((one, at) => h("span", { class: kind(one) }, at < lines.length - 1 ? `${one}\n` : one))),
    ),
  );
}

/** The changes of files, each hunk as `view` shows it. The path of a file is shown where there are several. */
export function changes<Hunk, File extends { readonly path: string; readonly hunks: readonly Hunk[]; readonly notes?: readonly string[] }>(
  files: readonly File[],
  view: (hunk: File["hunks"][number], file: File) => HTMLElement,
): HTMLElement {
  return h(
    "div",
    { class: "diff", tabindex: "0", role: "region", "aria-label": "Changes" },
    ...files.map((file) =>
      h(
        "section",
        { class: "file" },
        files.length > 1 && h("a", { class: "path", href: "#", "data-href": encodeURI(file.path) }, file.path),
        ...file.hunks.map((hunk) => view(hunk, file)),
        ...(file.notes ?? []).map((line) => h("p", { class: "place" }, line)),
      ),
    ),
  );
}

function kind(line: string): string {
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return line.startsWith("\\") ? "place" : "same";
}
