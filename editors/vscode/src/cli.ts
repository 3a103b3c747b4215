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
export type RunProgram = (args: readonly string[], options?: RunOptions) => Promise<Ran>;

export interface RunOptions {
  /** Lines for its standard input. */
  readonly input?: readonly string[];
  /** Variables besides those that the server gets. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The longest time, in milliseconds. */
  readonly timeout?: number;
  readonly cwd?: string;
}

/** How long a run may take unless more is said: it may ask an endpoint. */
const TIMEOUT = 60_000;

/** Runs a program to its end. */
export async function run(program: string, args: readonly string[], environment: Readonly<Record<string, string>>, options: RunOptions = {}): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd ?? homedir(),
      env: { ...process.env, ...environment, ...options.environment },
      stdio: ["pipe", "pipe", "pipe"],
      timeout: options.timeout ?? TIMEOUT,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (piece: Buffer) => (stdout += piece.toString()));
    child.stderr.on("data", (piece: Buffer) => (stderr += piece.toString()));
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
    // A program that ends before it reads all of it has said why.
    child.stdin.on("error", () => {});
    child.stdin.end(options.input?.map((line) => `${line}\n`).join("") ?? "");
  });
}

/** Why a run failed: the last line that it printed for people. */
export function complaint({ stdout, stderr }: Ran): string {
  const lines = (stderr.trim() || stdout.trim()).split("\n").filter((line) => line.trim() !== "");
  return (lines.at(-1) ?? "it printed nothing").replace(/^(?:roo-lsp|error): /i, "");
}
