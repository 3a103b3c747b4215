// What a user waits for: from the key to the task, and from the server's event to what is drawn.
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

const editor = await Editor.start({ turns: SCRIPT, settings: { "roo.mode": "code" } });
try {
  await editor.command("Roo: New Task…");
  const chat = await editor.chat();
  await until(async () => (await chat.locator("#mode").inputValue()) === "code", "the server is there");

  // Both ends are taken in the page: the key as it comes, the answer as it comes, and what is drawn when it is.
  await chat.evaluate(() => {
    const page = Object.assign(window as unknown as { starts: number[]; pixels: number[] }, { starts: [], pixels: [] });
    let pressed = 0;
    document.addEventListener("keydown", (event) => { if (event.key === "Enter") pressed = performance.now(); }, { capture: true });
    window.addEventListener("message", (event: MessageEvent<{ type: string; params?: { at: number; event: { type: string } } }>) => {
      if (event.data.type === "taken") page.starts.push(performance.now() - pressed);
      const params = event.data.params;
      if (event.data.type !== "event" || params?.event.type !== "message.delta") return;
      // The page draws in the next frame; when the one after that begins, it is on the screen.
      requestAnimationFrame(() => requestAnimationFrame(() => page.pixels.push(Date.now() - params.at)));
    });
  });
  for (let round = 1; round <= STARTS; round += 1) {
    await chat.locator("#prompt").fill(`Task ${round}`);
    await chat.locator("#prompt").press("Enter");
    // Some pieces, while it streams.
    await until(() => chat.evaluate((pieces) => (window as unknown as Measured).pixels.length >= pieces, round * 25), "pieces are drawn");
    await chat.locator("#cancel").click();
    await chat.locator("#resume").waitFor();
    await editor.command("Roo: New Task…");
    await until(async () => (await chat.locator("#send").textContent()) === "Start", "the page is empty");
  }
  const measured = await chat.evaluate(() => ({ starts: (window as unknown as Measured).starts, pixels: (window as unknown as Measured).pixels }));
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
