// The changes of an edit with the lines around them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decided, withContext } from "../../src/hunks.ts";
import type { Hunk } from "../../src/protocol.ts";

const hunk = (hunkId: string, start: number, oldText: string, newText: string): Hunk => ({
  hunkId, digest: `d-${hunkId}`, oldText, newText,
  oldRange: { start, end: start + oldText.split("\n").length - 1 },
  newRange: { start, end: start + newText.split("\n").length - 1 },
});

test("each change is shown with the lines around it, and no line twice", () => {
  const before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
  const shown = withContext("a.txt", before, [hunk("h1", 4, "5\n", "five\n"), hunk("h2", 6, "7\n", ""), hunk("h3", 12, "", "13\n")]);
  assert.deepEqual(shown.hunks.map(({ before: above, removed, added, after }) => [above, removed, added, after]), [
    [["2", "3", "4"], ["5"], ["five"], ["6"]],
    [[], ["7"], [], ["8", "9", "10"]],
    [["11", "12"], [], ["13"], []],
  ]);
  assert.deepEqual(withContext("new.txt", "", [hunk("h1", 0, "", "a\nb\n")]).hunks[0]?.added, ["a", "b"]);
});

test("a file is as the decisions on its changes leave it, and each change has its place there", () => {
  const before = "1\n2\n3\n4\n5\n";
  const hunks = [hunk("h1", 0, "", "zero\n"), hunk("h2", 1, "2\n", "two\ntwo\n"), hunk("h3", 4, "5\n", "")];
  const place = (answers: Parameters<typeof decided>[2]): unknown => {
    const { text, places } = decided(before, hunks, answers);
    return [text, ...hunks.map(({ hunkId }) => [places.get(hunkId)?.start, places.get(hunkId)?.end])];
  };
  assert.deepEqual(place([]), ["zero\n1\ntwo\ntwo\n3\n4\n", [0, 1], [2, 4], [6, 6]]);
  assert.deepEqual(place([{ hunkId: "h1", decision: "refuse" }, { hunkId: "h2", decision: "edit", text: "mine\n" }]), ["1\nmine\n3\n4\n", [0, 0], [1, 2], [4, 4]]);
  assert.deepEqual(place([{ hunkId: "h3", decision: "refuse" }, { hunkId: "h2", decision: "accept" }]), ["zero\n1\ntwo\ntwo\n3\n4\n5\n", [0, 1], [2, 4], [6, 7]]);
  // Without a line break at the end.
  assert.equal(decided("a\nb", [hunk("h1", 0, "a\n", "A\n")], []).text, "A\nb");
});
