// The requests that this client follows. It asks for what it has missed, and tells its views of changes.
import * as vscode from "vscode";
import { kindOf } from "./failures.ts";
import type { EventParams, TaskAttachResult, TaskId } from "./protocol.ts";
import { apply, unknownRequest, type Request } from "./state.ts";

/** Asks the server to send a request's events from behind a number on. */
export type Attach = (taskId: TaskId, afterSeq: number) => Promise<TaskAttachResult | undefined>;

/** Pauses before a request is attached to again whose events have ended: for one attempt after the other, the last one for all further. */
const PAUSES_MS = [500, 1000, 2000, 5000, 15_000, 60_000] as const;

/** All requests that are known, and the one that is shown. */
export class Store implements vscode.Disposable {
  readonly #attach: Attach;
  readonly #requests = new Map<TaskId, Request>();
  readonly #catchingUp = new Set<TaskId>();
  /** Up to which number the server replays what was: no end until it has answered, and no entry where nothing is replayed. */
  readonly #replayedTo = new Map<TaskId, number>();
  /** How often each request was attached to again since its last event. */
  readonly #attempts = new Map<TaskId, number>();
  /** The requests that will be attached to again after a pause. */
  readonly #pauses = new Map<TaskId, ReturnType<typeof setTimeout>>();
  readonly #changed = new vscode.EventEmitter<TaskId>();
  readonly #taken = new vscode.EventEmitter<EventParams>();
  readonly #applied = new vscode.EventEmitter<EventParams>();
  readonly #reset = new vscode.EventEmitter<void>();
  readonly #caughtUp = new vscode.EventEmitter<TaskId>();
  #shown: TaskId | undefined;

  /** A request has changed. */
  readonly onDidChange = this.#changed.event;
  /** An event has changed a request, whether or not it is shown. */
  readonly onDidTake = this.#taken.event;
  /** An event has changed the request that is shown. */
  readonly onDidApply = this.#applied.event;
  /** Another request is shown, or what is known of it starts over. */
  readonly onDidReset = this.#reset.event;
  /** All is known of a request. */
  readonly onDidCatchUp = this.#caughtUp.event;

  constructor(attach: Attach) {
    this.#attach = attach;
  }

  /** The request that is shown. */
  get shown(): Request | undefined {
    return this.#shown === undefined ? undefined : this.#requests.get(this.#shown);
  }

  /** Whether all is known of a request, and what comes from now on is new. */
  isCaughtUp(rootId: TaskId): boolean {
    const request = this.#requests.get(rootId);
    return request !== undefined && request.seq >= (this.#replayedTo.get(rootId) ?? 0);
  }

  /** All requests that are known. */
  get all(): Iterable<Request> {
    return this.#requests.values();
  }

  /** Shows a request; what is not known of it is asked for. */
  async show(rootId: TaskId | undefined): Promise<void> {
    this.#shown = rootId;
    if (rootId !== undefined && !this.#requests.has(rootId)) {
      this.#requests.set(rootId, unknownRequest(rootId));
      this.#reset.fire();
      await this.#attachTo(rootId, 0);
      return;
    }
    this.#reset.fire();
  }

  /** Follows a request of which something is known, from there on. */
  async follow(rootId: TaskId): Promise<void> {
    const known = this.#requests.get(rootId) ?? unknownRequest(rootId);
    this.#requests.set(rootId, known);
    await this.#attachTo(rootId, known.seq);
  }

  async #attachTo(rootId: TaskId, afterSeq: number): Promise<void> {
    this.#replayedTo.set(rootId, Number.POSITIVE_INFINITY);
    let answer: TaskAttachResult | undefined;
    try {
      answer = await this.#attach(rootId, afterSeq);
    } finally {
      this.#replayedTo.set(rootId, answer?.seq ?? 0);
    }
    if (answer !== undefined) this.#attached(rootId);
    if (this.isCaughtUp(rootId)) this.#caughtUp.fire(rootId);
  }

  /** Events come from now on. What the server has warned of may be over; it warns again of what isn't. */
  #attached(rootId: TaskId): void {
    this.#endPause(rootId);
    const warnings = this.#requests.get(rootId)?.warnings ?? [];
    if (warnings.some(({ until }) => until !== undefined)) this.take({ rootId, taskId: rootId, at: Date.now(), event: { type: "server.recovered" } });
  }

  /** Attaches again after a pause, as a request's events have ended. It grows with each attempt that has brought no event. */
  #attachLater(rootId: TaskId): void {
    const attempts = this.#attempts.get(rootId) ?? 0;
    this.#attempts.set(rootId, attempts + 1);
    this.#endPause(rootId);
    this.#pauses.set(rootId, setTimeout(() => void this.#attachAgain(rootId), PAUSES_MS[attempts] ?? PAUSES_MS.at(-1)));
  }

  async #attachAgain(rootId: TaskId): Promise<void> {
    this.#endPause(rootId);
    const request = this.#requests.get(rootId);
    if (request === undefined) return;
    try {
      await this.#attachTo(rootId, request.seq);
    } catch (error) {
      // What was deleted has no more events.
      if (kindOf(error) !== "notFound") this.#attachLater(rootId);
    }
  }

  #endPause(rootId: TaskId): void {
    clearTimeout(this.#pauses.get(rootId));
    this.#pauses.delete(rootId);
  }

  /** Takes an event of the server. */
  take(params: EventParams): void {
    const { rootId } = params;
    const before = this.#requests.get(rootId) ?? unknownRequest(rootId);
    const { request, gap } = apply(before, params);
    if (gap) {
      this.#requests.set(rootId, before);
      this.#catchUp(rootId, before.seq);
      return;
    }
    if (request === before) return;
    this.#requests.set(rootId, request);
    if (params.seq != null) this.#attempts.delete(rootId);
    if (params.event.type === "server.degraded" && params.event.until === "attached") this.#attachLater(rootId);
    if (rootId === this.#shown) this.#applied.fire(params);
    this.#taken.fire(params);
    this.#changed.fire(rootId);
  }

  /** Forgets a request. */
  forget(rootId: TaskId): void {
    this.#requests.delete(rootId);
    this.#attempts.delete(rootId);
    this.#endPause(rootId);
    if (this.#shown === rootId) void this.show(undefined);
    this.#changed.fire(rootId);
  }

  dispose(): void {
    for (const rootId of [...this.#pauses.keys()]) this.#endPause(rootId);
    this.#changed.dispose();
    this.#taken.dispose();
    this.#applied.dispose();
    this.#reset.dispose();
    this.#caughtUp.dispose();
  }

  #catchUp(rootId: TaskId, afterSeq: number): void {
    if (this.#catchingUp.has(rootId)) return;
    this.#catchingUp.add(rootId);
    this.#attachTo(rootId, afterSeq)
      // It is asked for again with the next event.
      .catch(() => {})
      .finally(() => this.#catchingUp.delete(rootId));
  }
}
