// The scenario in the real editor, in a real browser, by the chat, with the keyboard alone. (With the mouse:
// looks.test.ts.)
import assert from "node:assert/strict";
import { test } from "node:test";
import { Editor } from "./editor.ts";
import { keyboard } from "./hands.ts";
import { play } from "./scenario.ts";

test("the scenario runs with the keyboard alone", async () => {
  const editor = await Editor.start();
  try {
    await play(editor, keyboard);
    assert.deepEqual(editor.foreign, [], "the page asked no other host for anything");
  } catch (error) {
    throw await editor.failed("keyboard", error);
  } finally {
    await editor.stop();
  }
});
