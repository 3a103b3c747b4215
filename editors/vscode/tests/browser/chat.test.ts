// The scenario in the real editor, in a real browser, by the chat: with the mouse, and with the keyboard alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Editor } from "./editor.ts";
import { keyboard, mouse } from "./hands.ts";
import { play } from "./scenario.ts";

for (const hands of [mouse, keyboard]) {
  test(`the scenario runs with the ${hands.name} alone`, async () => {
    const editor = await Editor.start();
    try {
      await play(editor, hands);
      assert.deepEqual(editor.foreign, [], "the page asked no other host for anything");
    } catch (error) {
      throw await editor.failed(`${hands.name}`, error);
    } finally {
      await editor.stop();
    }
  });
}
