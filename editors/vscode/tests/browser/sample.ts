// A request to look at: what a page is shown without a server.
import type { ApprovalOption, Event, TaskState, TreeNode } from "../../src/protocol.ts";

/** An event, and the task of the request that it is about; its root when left out. */
export type Told = Event & { readonly task?: string };

/** A change with two hunks and more lines than a card shows at once. */
export const cart = `--- a/shop/cart.py
+++ b/shop/cart.py
@@ -1,9 +1,12 @@
 """A cart."""
 
 from decimal import Decimal
+from dataclasses import dataclass, field
 
 
+@dataclass
 class Cart:
-    def __init__(self):
-        self.items = []
+    items: list[tuple[str, Decimal, int]] = field(default_factory=list)
 
     def total(self):
-        return sum(price for _, price in self.items)
+        return sum((price * count for _, price, count in self.items), Decimal(0))
@@ -40,6 +43,7 @@
     def clear(self):
         self.items.clear()
+        self.coupon = None
 
     def is_empty(self):
         return not self.items
`;
const options = [
  { id: "no", name: "Deny", kind: "reject_once" }, { id: "yes", name: "Allow", kind: "allow_once" },
  { id: "aa", name: "Always allow edits of this workspace's files", kind: "allow_always", scope: "Allows all edits of files in this workspace, in this task and in later ones." }, { id: "ra", name: "Always deny edits of this workspace's files", kind: "reject_always" },
] satisfies ApprovalOption[];
const node = (id: string, parentId: string | null, mode: string, emoji: string, title: string, state: TaskState, tokens: number, costUsd: number): TreeNode => ({ id, parentId, mode, emoji, title, state, startedAt: 0, tokens, costUsd });
/** A request with a bit of everything, at work. */
export const working: readonly Told[] = [
  { type: "task.created", urid: "u", mode: "code", title: "Fix the total of the cart and describe it in the README" },
  { type: "message", message: { id: "m1", say: "text", text: "Fix the total of the cart and describe it in the README" } },
  { type: "message", message: { id: "r1", say: "api_req_started", text: '{"request":1}' } },
  { type: "message", message: { id: "r1", say: "api_req_started", text: '{"request":1,"cancelReason":"streaming_failed","streamingFailedMessage":"The provider asks to wait: status 429, rate limit reached (http://127.0.0.1:8080/v1/messages)"}' } },
  { type: "retry.scheduled", at: 1767322805000, attempt: 2, reason: "status 429" },
  { type: "message", message: { id: "r1.t", say: "reasoning", text: "The total ignores the count." } },
  { type: "message", message: { id: "r1.u", say: "text", text: "The total in `shop/cart.py:4` ignores how many of an item there are. I suggest:\n\n```python\n# price times count\ndef total(self) -> Decimal:\n    return sum((price * count for _, price, count in self.items), Decimal(0))\n```\n\n- **One** change in the class\n- A test in `tests/test_cart.py`, see [the docs](https://example.org)\n\n| file | change |\n|---|---|\n| cart.py | total |" } },
  { type: "message", message: { id: "r1.c", ask: "tool", text: '{"tool":"readFile","path":"shop/cart.py"}' } },
  { type: "tool.started", toolCallId: "c0", name: "read_file", subject: "shop/cart.py" },
  { type: "tool.finished", toolCallId: "c0", status: "ok", summary: "80 lines" },
  { type: "usage", tokensIn: 1800, tokensOut: 420, cacheReads: 42000, cacheWrites: 3000, costUsd: 0.0412 },
  { type: "todo.changed", items: [{ id: "1", content: "Find the bug", status: "completed" }, { id: "2", content: "Fix the total", status: "in_progress" }, { id: "3", content: "Describe it in the README", status: "pending" }] },
  { type: "tree.changed", nodes: [node("root", null, "code", "💻", "Fix the total of the cart", "waiting", 47220, 0.0412), node("root.2", "root", "architect", "🏗️", "Describe the cart", "waiting", 9200, 0.011)] },
  { type: "task.created", task: "root.2", parentId: "root", urid: "u", mode: "architect", title: "Describe the cart" },
];
/** It asks to edit a file. */
export const edit: readonly Told[] = [
  { type: "message", message: { id: "r2.c", ask: "tool", text: '{"tool":"appliedDiff","path":"shop/cart.py"}' } },
  { type: "approval.requested", approvalId: "root.a1", toolCallId: "c1", digest: "d", title: "Edit shop/cart.py", subject: cart, reason: "the settings don't allow it without asking", options, rule: { kind: "edits" } },
];
/** A branch asks to run a command. */
export const command: readonly Told[] = [
  { type: "approval.requested", task: "root.2", approvalId: "root.2.a1", toolCallId: "c9", digest: "d", title: "Run sed -i 's/^total/Total/' README.md docs/cart.md && python -m pytest", subject: "sed -i 's/^total/Total/' README.md docs/cart.md docs/shopping.md && python -m pytest tests/test_cart.py -q --maxfail=1\nRuns in /home/anna/shop\nUnsaved: docs/cart.md; save it now if the command should see it", reason: "no rule allows sed", options: options.slice(0, 2) },
];
/** It asks its user. */
export const question: readonly Told[] = [
  { type: "question.asked", questionId: "q1", kind: "followup", text: "Should the total be **rounded**?", suggestions: [{ text: "Yes, to two places" }, { text: "No, keep it exact", mode: "architect" }] },
];
