// The requests that this client follows. It asks for what it has missed, and tells its views of changes.
import * as vscode from "vscode";
import type { EventParams, TaskAttachResult, TaskId } from "./protocol.ts";
import { apply, unknownRequest, type Request } from "./state.ts";

/** Asks the server to send a request's events from behind a number on. */
export type Attach = (taskId: TaskId, afterSeq: number) => Promise<TaskAttachResult | undefined>;

/** All requests that are known, and the one that is shown. */
export class Store implements vscode.Disposable {
  readonly #attach: Attach;
  readonly #requests = new Map<TaskId, Request>();
  readonly #catchingUp = new Set<TaskId>();
  /** Up to which number the server replays what was: no end until it has answered, and no entry where nothing is replayed. */
  readonly #replayedTo = new Map<TaskId, number>();
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
  /** Another request is shown, or what is known of it begins anew. */
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
    if (this.isCaughtUp(rootId)) this.#caughtUp.fire(rootId);
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
    if (rootId === this.#shown) this.#applied.fire(params);
    this.#taken.fire(params);
    this.#changed.fire(rootId);
  }

  /** Forgets a request. */
  forget(rootId: TaskId): void {
    this.#requests.delete(rootId);
    if (this.#shown === rootId) void this.show(undefined);
    this.#changed.fire(rootId);
  }

  dispose(): void {
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
