// What a user waits for: from the key to the task, and from the server's event to what is drawn.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Editor, until } from "./editor.ts";

/** How many tasks are started. */
const STARTS = 40;
const SCRIPT = `turns:
  - mode: code
    repeat: true
    text: "${"A sentence that is streamed to the chat piece by piece. ".repeat(12)}"
    chunk: 6
    delayMs: 20
    calls:
      - tool: attempt_completion
        params: { result: "Done." }
`;

interface Measured {
  readonly starts: number[];
  readonly pixels: number[];
}

const editor = await Editor.start({ settings: { "roo.mode": "code" } });
try {
  const script = join(editor.home, "script.yaml");
  writeFileSync(script, SCRIPT);
  editor.set({ "roo.profiles": { scenario: { provider: "scripted", model: "script", script } } });
  await editor.page.locator(".notification-toast .monaco-button", { hasText: "Restart" }).first().click();
  await editor.command("Roo: New Task…");
  let chat = await editor.chat();
  await until(async () => (await chat.locator("#mode").inputValue()) === "code", "the server is there");

  const measured: Measured = { starts: [], pixels: [] };
  for (let round = 0; round < STARTS; round += 1) {
    chat = await editor.chat();
    // Both ends are taken in the page: the key as it comes, the answer as it comes, and pixels after they are drawn.
    await chat.evaluate(() => {
      const page = window as unknown as { starts: number[]; pixels: number[] };
      page.starts = [];
      page.pixels = [];
      let pressed = 0;
      document.addEventListener("keydown", (event) => { if (event.key === "Enter") pressed = performance.now(); }, { capture: true, once: true });
      window.addEventListener("message", (event: MessageEvent<{ type: string; params?: { at: number; event: { type: string } } }>) => {
        if (event.data.type === "taken" && pressed > 0) page.starts.push(performance.now() - pressed);
        const params = event.data.params;
        if (event.data.type !== "event" || params?.event.type !== "message.delta") return;
        // The page draws in the next frame; the frame after that it is on the screen.
        requestAnimationFrame(() => requestAnimationFrame(() => page.pixels.push(Date.now() - params.at)));
      });
    });
    await chat.locator("#prompt").fill(`Task ${round}`);
    await chat.locator("#prompt").press("Enter");
    await chat.locator(".said.text", { hasText: "A sentence that is streamed" }).first().waitFor();
    // Pieces of a second, while it streams.
    await until(() => chat.evaluate(() => (window as unknown as Measured).pixels.length >= 25), "pieces are drawn");
    const part = await chat.evaluate(() => ({ starts: (window as unknown as Measured).starts, pixels: (window as unknown as Measured).pixels }));
    measured.starts.push(...part.starts);
    measured.pixels.push(...part.pixels);
    await chat.locator("#cancel").click();
    await chat.locator("#resume").waitFor();
    await editor.command("Roo: New Task…");
    await until(async () => (await chat.locator("#send").textContent()) === "Start", "the page is empty");
  }
  print("key press to the answer of roo/task/start", measured.starts);
  print("event of the server to pixels", measured.pixels);
} finally {
  await editor.stop();
}

function print(what: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): string => `${(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(1)} ms`;
  console.log(`${what}: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, ${sorted.length} samples`);
}
