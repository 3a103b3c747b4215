// The server's program on the command line, for what `roo/*` has no request for.
import { spawn } from "node:child_process";
import { homedir } from "node:os";

/** What a run printed. */
export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program with these arguments: outside of the workspace, so that nothing in there counts. */
export type RunProgram = (args: readonly string[]) => Promise<Ran>;

/** How long a run may take, in milliseconds. */
const TIMEOUT = 60_000;

/** Runs a program to its end. */
export async function run(program: string, args: readonly string[], environment: Readonly<Record<string, string>>): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: homedir(),
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: TIMEOUT,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (piece: Buffer) => (stdout += piece.toString()));
    child.stderr.on("data", (piece: Buffer) => (stderr += piece.toString()));
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** Why a run failed: the last line that it printed for people. */
export function complaint({ stdout, stderr }: Ran): string {
  const lines = (stderr.trim() || stdout.trim()).split("\n").filter((line) => line.trim() !== "");
  return (lines.at(-1) ?? "it printed nothing").replace(/^(?:roo-lsp|error): /i, "");
}
