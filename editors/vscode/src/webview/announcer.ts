// What a screen reader is told: whole things, not every piece of a stream.
import type { EventParams } from "../protocol.ts";
import { h } from "./dom.ts";

/** A live region. */
export class Announcer {
  readonly element = h("div", { id: "announcer", class: "unseen", role: "status", "aria-live": "polite" });

  /** Says a sentence. */
  say(text: string): void {
    this.element.append(h("p", {}, text));
    // A reader takes what is added; what is old is only in the way.
    while (this.element.childElementCount > 5) this.element.firstElementChild?.remove();
  }

  /** Says what an event means, if it means something to the user. */
  event({ event }: EventParams, branch: string | undefined): void {
    const who = branch === undefined ? "" : `${branch}: `;
    switch (event.type) {
      case "message":
        if ("say" in event.message && ["text", "completion_result"].includes(event.message.say)) {
          this.say(who + event.message.text.slice(0, 1000));
        }
        return;
      case "approval.requested":
        return this.say(`${who}Permission is asked: ${event.title}. ${event.reason}`);
      case "question.asked":
        return this.say(`${who}Question: ${event.text}`);
      case "task.state":
        if (["failed", "cancelled", "interrupted"].includes(event.state)) {
          this.say(`${who}${event.state}${event.reason ? `: ${event.reason}` : ""}`);
        }
        return;
      default:
        return;
    }
  }
}
