// The types of `roo/*`. Generated from schemas/roo-protocol.json by `npm run generate`; not to be edited.

/** The version that this client speaks. */
export const PROTOCOL_VERSION = 1;

/** `roo/task/start`. */
export type TaskStartParams = {
  /** Prompt. */
  prompt: string;
  /** The slug of the mode; the settings' default when absent. */
  mode?: string | null;
  /** The name of the model profile; the mode's or the default one when absent. */
  profile?: string | null;
  /** Images as data URLs. */
  images?: string[];
  /** Places that the prompt is about. */
  context?: ContextItem[];
};

/** A place that the prompt is about. */
export type ContextItem = {
  /** A `file:` URI. */
  uri: string;
  /** The part of it; all when absent. */
  range?: Range | null;
};

/** A range in a document; the end is exclusive. */
export type Range = {
  /** Begin. */
  start: Position;
  /** End, exclusive. */
  end: Position;
};

/** A position in a document: zero-based line and character, in the negotiated encoding. */
export type Position = {
  /** Zero-based line. */
  line: number;
  /** Zero-based character offset in the negotiated position encoding. */
  character: number;
};

/** Result of `roo/task/start`. */
export type TaskStartResult = {
  /** The new root task; the client is attached to it. */
  taskId: TaskId;
  /** The request's id for people. */
  urid: Urid;
};

/** One task: one mode at work with its own context. A root task's id is also its request's id. */
export type TaskId = string;

/** The id of a user request, `YYYYMMDD-HH-MM-xxxxxxxx`: local time and 8 hex digits of a random UUID. */
export type Urid = string;

/** `roo/task/send`. */
export type TaskSendParams = {
  /** The task. */
  taskId: TaskId;
  /** Text of the user. Never an approval, whatever waits. */
  text: string;
  /** Images as data URLs. */
  images?: string[];
  /** Time at which it reaches the model. */
  when?: SendWhen;
};

/** Time at which a message reaches a running task. */
export type SendWhen = "now" | "afterTurn";

/** An answer without content. */
export type Done = Record<string, never>;

/** `roo/task/fork`. */
export type TaskForkParams = {
  /** The request. */
  taskId: TaskId;
  /** The number of the last event that the fork has; the newest when absent. */
  seq?: number | null;
  /** What the fork goes on with; it waits for a message when absent. */
  prompt?: string | null;
  /**
   * True for a git worktree with files of its own, as they were at that event. The fork is a request of that folder, so it
   * takes no prompt here.
   */
  worktree?: boolean;
};

/** Result of `roo/task/fork`. */
export type TaskForkResult = {
  /** The fork's root task; the client is attached to it, unless it has a folder of its own. */
  taskId: TaskId;
  /** The fork's id for people. */
  urid: Urid;
  /** The number of the last event that it has of the other request. */
  seq: number;
  /** The folder of its own; absent where both have the same files. */
  folder?: string | null;
  /** Files that are not there as they were at that event. */
  leftOut?: LeftOutFile[];
};

/** A file that is left as it is. */
export type LeftOutFile = {
  /** Relative to the first workspace folder; a full path elsewhere. */
  path: string;
  /** Reason. */
  reason: string;
};

/** A request that names a task. */
export type TaskParams = {
  /** The task. */
  taskId: TaskId;
};

/** `roo/task/edit` */
export type TaskEditParams = {
  /** The request. */
  taskId: TaskId;
  /** The user's message that is replaced. The conversation goes on from there. */
  messageId: MessageId;
  /** The new text. */
  text: string;
  /** Images as data URLs. */
  images?: string[];
  /** True to restore the files as they were before the message, too. */
  files?: boolean;
  /** True to be told what would be done, and do nothing. */
  preview?: boolean;
  /** What becomes of files that the user has changed in the same place. */
  conflicts?: RestoreConflicts;
  /** The `digest` of the preview that the user has seen. */
  digest?: Digest | null;
};

/** One message of a task as clients show it; later versions of a message keep its id. */
export type MessageId = string;

/** What becomes of a file that the user has changed in the same place. */
export type RestoreConflicts = "keep" | "mark";

/** A SHA-256 digest. */
export type Digest = string;

/** Result of `roo/checkpoint/restore`. */
export type CheckpointRestoreResult = {
  /** The files that the restore changes, by path. */
  files: FileDiff[];
  /** Files that the user has changed in the same place. */
  conflicts: RestoreConflict[];
  /** Files that can't be restored. */
  leftOut: LeftOutFile[];
  /** The message of the user before which the conversation continues; absent where it stays as it is. */
  conversation?: RestoredConversation | null;
  /** Branches of a stopped request that don't go on after its conversation was restored; absent where there are none. */
  endedBranches?: EndedBranch[];
  /** Stands for files, conflicts and conversation in a restore. */
  digest: Digest;
  /** The number of the restore's own event, by which it can be undone; absent in a preview. */
  restoredAs?: number | null;
};

/** A file with its contents on both sides. */
export type FileDiff = {
  /** Relative to the first workspace folder; a full path elsewhere. */
  path: string;
  /** The file, as its editor spells it where it is open. */
  uri: string;
  /** The earlier text, or words for what is no text; absent where there was no file. */
  before?: string | null;
  /** The later text, or words for what is no text; absent where there is no file. */
  after?: string | null;
  /** A unified diff of the two; one line that names the file where one of them is no text. */
  diff: string;
};

/** A file that the user has changed where a restore would change it. */
export type RestoreConflict = {
  /** Relative to the first workspace folder; a full path elsewhere. */
  path: string;
  /** Reason. */
  reason: string;
  /** True if both versions are written into the file, between conflict markers. */
  marked: boolean;
};

/** Where a conversation continues after a restore. */
export type RestoredConversation = {
  /** The number of the first event that the model no longer sees. */
  before: number;
  /** The number of messages and results that it no longer sees. */
  dropped: number;
};

/** A branch that ends with a restore. */
export type EndedBranch = {
  /** The branch. */
  taskId: TaskId;
  /** Its name for people. */
  title: string;
  /**
   * The folder of its git worktree, which is kept if it has changes that are not merged. After the restore, only one that was
   * kept.
   */
  worktree?: string | null;
};

/** `roo/task/attach`. */
export type TaskAttachParams = {
  /** The task whose request to follow, or `*` for everything, live only. */
  taskId: TaskId;
  /** Events up to and including this `seq` are not sent again. 0 replays all. */
  afterSeq?: number;
};

/** Result of `roo/task/attach`. */
export type TaskAttachResult = {
  /** The newest `seq` of the request at this moment. */
  seq: number;
};

/** `roo/task/list`. */
export type TaskListParams = {
  /** From an earlier answer, to go on behind it. */
  cursor?: string | null;
};

/** Result of `roo/task/list`: newest first. */
export type TaskListResult = {
  /** At most 100 requests. */
  items: HistoryItem[];
  /** Cursor for the next page; absent at the end. */
  nextCursor?: string | null;
};

/** A request in a list. */
export type HistoryItem = {
  /** The root task. */
  taskId: TaskId;
  /** The request's id for people. */
  urid: Urid;
  /** Its prompt on one line, shortened. */
  title: string;
  /** The slug of its mode. */
  mode: string;
  /** State. */
  state: TaskState;
  /** Creation time, in milliseconds since the Unix epoch. */
  createdAt: number;
  /** Time of its last event. */
  updatedAt: number;
  /** Totals so far. */
  usage: Usage;
  /** The newest `seq`. */
  seq: number;
  /** Where a fork begins; absent for any other request. */
  forkedFrom?: ForkOrigin | null;
  /** The other program's task that it was imported from; absent for any other request. */
  importedFrom?: ImportOrigin | null;
};

/** State of a task. */
export type TaskState = "running" | "waiting" | "paused" | "interrupted" | "completed" | "failed" | "cancelled";

/** Tokens and money. */
export type Usage = {
  /** Input tokens, without those read from or written to the provider's cache. */
  tokensIn?: number;
  /** Output tokens. */
  tokensOut?: number;
  /** Input tokens read from the provider's cache. */
  cacheReads?: number;
  /** Input tokens written to the provider's cache. */
  cacheWrites?: number;
  /** Cost in US dollars, from the profile's prices or the provider's own word. */
  costUsd?: number;
};

/** The place in another request at which a fork begins. */
export type ForkOrigin = {
  /** The request that was forked. */
  taskId: TaskId;
  /** Its id for people. */
  urid: Urid;
  /** The number of the last event that both have. */
  seq: number;
  /** What was used up to there. It is no part of the fork's own totals. */
  usage: Usage;
};

/** A task of another program. */
export type ImportOrigin = {
  /** The program, for people. */
  program: string;
  /** The id that the task has there. */
  taskId: string;
  /** The id that the task has there which delegated it. */
  parentTaskId?: string | null;
  /** The id that the first of the tasks has there which delegated to one another. */
  rootTaskId?: string | null;
  /** The ids that the tasks have there to which it delegated. */
  childTaskIds?: string[];
};

/** Result of `roo/task/get`: the task as it is at `seq`. */
export type TaskSnapshot = {
  /** The root task. */
  taskId: TaskId;
  /** The request's id for people. */
  urid: Urid;
  /** Its prompt on one line, shortened. */
  title: string;
  /** The slug of its mode. */
  mode: string;
  /** State. */
  state: TaskState;
  /** Creation time, in milliseconds since the Unix epoch. */
  createdAt: number;
  /** Time of its last event. */
  updatedAt: number;
  /** Totals so far. */
  usage: Usage;
  /** The newest `seq`. */
  seq: number;
  /** Where a fork begins; absent for any other request. */
  forkedFrom?: ForkOrigin | null;
  /** The other program's task that it was imported from; absent for any other request. */
  importedFrom?: ImportOrigin | null;
  /** The request that it belongs to. */
  rootId: TaskId;
  /** The result of a completed task. */
  result?: string | null;
  /** Reason why it is in its state, where that isn't plain. */
  reason?: string | null;
  /** All messages. */
  messages: Message[];
  /** The to-do list. */
  todo: TodoItem[];
  /** Messages that wait for the task. */
  queue: QueueItem[];
  /** The approval that waits, if one does. */
  approval?: PendingApproval | null;
  /** The question that waits, if one does. */
  question?: PendingQuestion | null;
  /** Tries and failures by tool. */
  toolUsage: ToolUsage;
  /** The size of the next model request; none before the first one has its answer. */
  context?: ContextMeter | null;
  /** How its conversation was shortened, oldest first. */
  shortenings?: Shortening[];
  /** Outcome of each call, in the order of their ends. */
  calls?: CallOutcome[];
};

/** One message of a task. A later message with the same id replaces this one. */
export type Message = {
  /** Stable over the message's versions. */
  id: MessageId;
  /** Text, or the JSON payload that Roo defines for this kind. */
  text: string;
  /** Images as data URLs. */
  images?: string[];
} & ({
  ask: Ask;
} | {
  say: Say;
});

/** Question of a task to its user. */
export type Ask = "followup" | "command" | "tool" | "use_mcp_server" | "completion_result" | "mistake_limit_reached" | "auto_approval_max_req_reached" | "api_req_failed" | "resume_task";

/** Message of a task to its user. */
export type Say = "text" | "reasoning" | "api_req_started" | "user_feedback" | "tool" | "command_output" | "mcp_server_request_started" | "mcp_server_response" | "codebase_search_result" | "error" | "completion_result" | "checkpoint_saved";

/** One entry of the to-do list. */
export type TodoItem = {
  /** Kept while the entry's text stays, whatever its status. */
  id: string;
  /** Text of the entry. */
  content: string;
  /** Status. */
  status: TodoStatus;
};

/** Status of a to-do entry. */
export type TodoStatus = "pending" | "in_progress" | "completed";

/** A message that waits for its task. */
export type QueueItem = {
  /** Names it in `roo/queue/edit` and `roo/queue/delete`. */
  id: string;
  /** Text of the user. */
  text: string;
  /** Images as data URLs. */
  images?: string[];
  /** Time of delivery. */
  when: SendWhen;
};

/** An approval that waits. */
export type PendingApproval = {
  /** Answer with this id. */
  approvalId: ApprovalId;
  /** The call that waits. */
  toolCallId: ToolCallId;
  /** Binds the answer to this exact action. */
  digest: Digest;
  /** Title, in a few words. */
  title: string;
  /** Subject of the action; a diff, a command line. */
  subject: string;
  /** Reason why it is asked. */
  reason: string;
  /** The possible answers, the harmless one first. */
  options: ApprovalOption[];
  /** True if the subject is so long that its user has to open it in full before they can allow it. */
  mustOpen?: boolean;
  /** Subject of the standing rule that the answers `allow_always` and `reject_always` make. */
  rule?: RuleSubject | null;
  /** Subject of the standing rule that the answers `allow_preset` and `allow_commands` make. */
  alternative?: RuleSubject | null;
  /**
   * True if it changes several files. It may then be answered by `review_once` besides, where the editor confirms
   * annotated edits: its user chooses there among the changes.
   */
  reviewable?: boolean;
};

/** One durable question for permission, bound to one exact action. */
export type ApprovalId = string;

/** One tool call of a task. Unique within the request, whatever the provider sent. */
export type ToolCallId = string;

/** One possible answer to an approval. */
export type ApprovalOption = {
  /** Answer with this. */
  id: string;
  /** Label of the button. */
  name: string;
  /** Meaning. */
  kind: OptionKind;
  /**
   * What the answer allows or refuses from now on, in full; absent for an answer that counts once. To be shown before
   * the answer is sent.
   */
  scope?: string | null;
};

/** Meaning of an option. The names are those of the Agent Client Protocol. */
export type OptionKind = "allow_once" | "allow_always" | "reject_once" | "reject_always";

/** Subject of a standing rule. All of it: nothing else is allowed or refused by it. */
export type RuleSubject = {
  kind: "commands";
  /** Each with its program first. */
  commands: (string[])[];
} | {
  kind: "preset";
  /** Its name. */
  preset: string;
  /** Description of what it allows, for people. */
  about: string;
} | {
  kind: "edits";
} | {
  kind: "reads";
} | {
  kind: "delegation";
} | {
  kind: "confinedCommands";
} | {
  kind: "trustAndConfinedCommands";
  /** Files by which the folder steers agents, as `roo/trust/get` lists them. */
  brings: string[];
} | ({
  kind: "sandboxAccess";
} & SandboxAccess) | {
  kind: "commandAccess";
  /** The words with which they begin, each with its program first. */
  commands: (string[])[];
  /** Granted access. */
  access: SandboxAccess;
} | {
  kind: "network";
} | {
  kind: "browserPages";
  /** The host, with its port where that is not the usual one. */
  host: string;
};

/** Access that the sandbox withholds from commands unless the user grants it. Paths are absolute and without links. */
export type SandboxAccess = {
  /** Paths that commands would read. */
  readable?: string[];
  /** Paths that commands would write. */
  writable?: string[];
  /** Hosts to connect to, each with its port: `registry.example.com:443`. */
  hosts?: string[];
  /** Names of environment variables that they would see. */
  variables?: string[];
  /** Unix sockets of other programs that they would connect to. */
  sockets?: string[];
  /** SSH keys with which git would sign: files, or public keys themselves. */
  signingKeys?: string[];
};

/** A question that waits. */
export type PendingQuestion = {
  /** Answer with this id. */
  questionId: QuestionId;
  /** Kind of question. */
  kind: QuestionKind;
  /** The question. */
  text: string;
  /** Suggested answers; any other text is allowed too. */
  suggestions: Suggestion[];
  /** True if the answer looks like a secret by what is asked: clients hide it while it is typed, and it is not kept. */
  secret?: boolean;
};

/** One durable question of a task to its user. */
export type QuestionId = string;

/** Reasons why a question stands. */
export type QuestionKind = "followup" | "mistake_limit_reached" | "auto_approval_max_req_reached" | "api_req_failed" | "changes_unknown" | "mcp_elicitation";

/** A suggested answer. */
export type Suggestion = {
  /** The answer's text. */
  text: string;
  /** The mode to switch to with it. */
  mode?: string | null;
};

/** Tries and failures by tool name. */
export type ToolUsage = Record<string, ToolCount>;

/** Tries and failures of one tool. */
export type ToolCount = {
  /** Number of calls. */
  attempts: number;
  /** Number of failed calls. */
  failures: number;
};

/** Size of a model request by its parts, in tokens. The parts are estimates that add up to `used`. */
export type ContextMeter = {
  /** Number of tokens that a request and its answer may have together, where that is known. */
  window?: number | null;
  /** Number of tokens above which the conversation is shortened, where that is known. */
  limit?: number | null;
  /** Tokens of the whole request. */
  used?: number;
  /** The system prompt, and the environment details at the end. */
  system?: number;
  /** Definitions of tools. */
  tools?: number;
  /** Messages of the user and the delegated task, which are never shortened. */
  pinned?: number;
  /** Contents of files that were read. */
  files?: number;
  /** The rest of the conversation. */
  conversation?: number;
};

/** One shortening of a task's conversation. */
export type Shortening = {
  /** The `seq` of its event, by which it is undone. */
  seq: number;
  /** Time, in milliseconds since the Unix epoch. */
  at: number;
  /** How it was shortened. */
  method: ShorteningMethod;
  /** Estimated tokens of the request before. */
  tokensBefore: number;
  /** Estimated tokens of the request after. */
  tokensAfter: number;
  /** True if it was undone. */
  restored?: boolean;
};

/** Ways to shorten a conversation. */
export type ShorteningMethod = "placeholders" | "summary" | "outline";

/** Outcome of a call. */
export type CallOutcome = {
  /** The message that shows the call. */
  messageId: MessageId;
  /** The tool. */
  name: string;
  /** Subject of the call. */
  subject: string;
  /** Final status. */
  status: ToolStatus;
  /** One line for people. */
  summary: string;
  /** The exit code of the command that it ran. */
  exitCode?: number | null;
};

/** Final status of a tool call. */
export type ToolStatus = "ok" | "failed" | "denied" | "skipped" | "interrupted";

/** Result of `roo/task/delete`. */
export type TaskDeleteResult = {
  /** Worktrees of its branches that are kept, as they have changes that are not merged. */
  keptWorktrees?: KeptWorktree[];
};

/** A git worktree of a branch that is kept after the branch. */
export type KeptWorktree = {
  /** Its folder. */
  path: string;
  /** Reason. */
  reason: string;
};

/** `roo/queue/edit`. */
export type QueueEditParams = {
  /** The task. */
  taskId: TaskId;
  /** The waiting message. */
  itemId: string;
  /** Its new text. */
  text: string;
};

/** `roo/queue/delete`. */
export type QueueDeleteParams = {
  /** The task. */
  taskId: TaskId;
  /** The waiting message. */
  itemId: string;
};

/** `roo/approval/respond`. */
export type ApprovalRespondParams = {
  /** The approval. */
  approvalId: ApprovalId;
  /** Its digest, as it was shown. */
  digest: Digest;
  /** The chosen option. */
  optionId: string;
  /** True if the user has opened the whole subject; needed to allow what `mustOpen` is said of. */
  opened?: boolean;
  /** Text added by the user; the model is told. */
  text?: string | null;
  /** Decisions on single hunks of an edit. The others follow the option, which must be `allow_once` or `reject_once`. */
  hunks?: HunkAnswer[];
};

/** Answer to one hunk. */
export type HunkAnswer = {
  /** The hunk. */
  hunkId: HunkId;
  /** Its digest, as it was shown; the approval's digest alone counts when absent. */
  digest?: Digest | null;
} & ({
  decision: "accept";
} | {
  decision: "refuse";
  /** The user's words; the model is told. */
  text?: string | null;
} | {
  decision: "edit";
  /** These. */
  text: string;
});

/** One change of a proposed edit, `h` and a number. Unique within the approval. */
export type HunkId = string;

/** Result of an answer to an approval or a question. */
export type AnswerResult = {
  /** True if this answer counted. The first one does; repeating it is harmless. */
  accepted: boolean;
  /** Author of the answer that counted. */
  by: string;
  /** The request is interrupted: the answer is kept, and nothing goes on before `roo/task/resume`. */
  interrupted?: boolean;
  /** The text was no answer but the command `/condense`, which is carried out. The question still waits. */
  waits?: boolean;
  /** What was decided before, where this answer came too late. */
  settled?: Settled | null;
};

/** Decision that came before an answer. */
export type Settled = {
  kind: "answered";
  /** The option of an approval, or the answer to a question. */
  answer: string;
} | {
  kind: "rule";
  /** Its id, as `roo/rule/list` has it. */
  ruleId: string;
} | {
  kind: "void";
};

/** `roo/approval/list` */
export type ApprovalListParams = Record<string, never>;

/** Result of `roo/approval/list`. */
export type ApprovalListResult = {
  /**
   * The approvals that wait, in the one order in which every client shows them: by request, the oldest first, and
   * within a request as they were asked.
   */
  approvals: WaitingApproval[];
};

/** An approval in the list of all that wait. */
export type WaitingApproval = {
  /** The request. */
  rootId: TaskId;
  /** The task that asks. */
  taskId: TaskId;
  /** The task's title. */
  taskTitle: string;
  /** Its place in the list, from 1; the list's length is the `m` of `n of m`. */
  number: number;
  /** The request is interrupted: an answer is kept until it goes on. */
  interrupted?: boolean;
  /** The approval. */
  approval: PendingApproval;
};

/** `roo/approval/preview`. */
export type ApprovalPreviewParams = {
  /** The approval; it must still wait. */
  approvalId: ApprovalId;
};

/** Result of `roo/approval/preview`. */
export type ApprovalPreviewResult = {
  /**
   * The files that the action would change, with their texts as they are now; empty when it is not
   * about files.
   */
  files: FilePreview[];
};

/** One file that an action would change. */
export type FilePreview = {
  /** The document, as its editor spells it where it is open. */
  uri: string;
  /** The whole text before, with what is not saved yet; absent for a new file. */
  before?: string | null;
  /** The whole text after; empty for a file that is deleted. */
  after: string;
  /** True if the file is deleted. */
  deleted?: boolean;
  /** The file's new name, if it gets one. */
  movedTo?: string | null;
  /** Its changes, each of which can be answered by itself. */
  hunks?: Hunk[];
};

/** One change of a proposed edit. */
export type Hunk = {
  /** Answer with this id. Ids count through all files of the approval. */
  hunkId: HunkId;
  /** Binds an answer to this exact change. */
  digest: Digest;
  /** What it does. */
  kind?: HunkKind;
  /** Lines of the text before. */
  oldRange: LineRange;
  /** Lines of the text after. */
  newRange: LineRange;
  /** The lines before, with their ends. */
  oldText: string;
  /** The lines after, with their ends. */
  newText: string;
};

/** What a hunk does. */
export type HunkKind = "edit" | "create" | "delete" | "move";

/** Lines of a text, counted from 0; the end is exclusive. */
export type LineRange = {
  /** First line. */
  start: number;
  /** Behind the last line. */
  end: number;
};

/** `roo/question/answer`. */
export type QuestionAnswerParams = {
  /** The question. */
  questionId: QuestionId;
  /** The answer. */
  text: string;
  /** Images as data URLs. */
  images?: string[];
};

/** `roo/changes/list` */
export type ChangesListParams = {
  /** The task. What its branches changed is listed too. */
  taskId: TaskId;
};

/** Result of `roo/changes/list`. */
export type ChangesListResult = {
  /** The changed files, by path. */
  files: ChangedFile[];
};

/** A file that a task changed. */
export type ChangedFile = {
  /** The file, as its editor spells it where it is open. */
  uri: string;
  /** The same, relative to its workspace folder. */
  path: string;
  /** Its changes, oldest first. */
  changes: RecordedChange[];
};

/** One change of a file. */
export type RecordedChange = {
  /** Names it in `roo/changes/undo`. */
  changeId: ChangeId;
  /** The task that made it. */
  taskId: TaskId;
  /** The call that made it. */
  toolCallId: ToolCallId;
  /** The tool. */
  tool: string;
  /** Time, in milliseconds since the Unix epoch. */
  at: number;
  /** What it did. */
  kind?: HunkKind;
  /** True for lines that the user put in the place of proposed ones. */
  byUser?: boolean;
  /** The lines before. */
  oldText: string;
  /** The lines after. */
  newText: string;
  /** The line, counted from 1, where the file holds it now; absent where it holds something else by now. */
  line?: number | null;
};

/** One recorded change of a file, `c` with the number of its event and its own. Unique within the request. */
export type ChangeId = string;

/** `roo/changes/undo` */
export type ChangesUndoParams = {
  /** The task of `roo/changes/list`. */
  taskId: TaskId;
  /** The changes to undo. */
  changeIds?: ChangeId[];
  /** A file, as `path` of the list, of which all changes are undone. */
  path?: string | null;
};

/** Result of `roo/changes/undo`. */
export type ChangesUndoResult = {
  /** The changes that were undone. */
  undone: ChangeId[];
  /** Those that were not. */
  conflicts: UndoConflict[];
};

/** A change that was not undone. */
export type UndoConflict = {
  /** The change. */
  changeId: ChangeId;
  /** Reason. */
  reason: string;
};

/** `roo/checkpoint/list` */
export type CheckpointListParams = {
  /** The task. Checkpoints of its branches are listed too. */
  taskId: TaskId;
};

/** Result of `roo/checkpoint/list`. */
export type CheckpointListResult = {
  /** The checkpoints, oldest first. */
  checkpoints: Checkpoint[];
  /** What is missing in general, in words for the user: why commands that run without a sandbox have none. */
  notice?: string | null;
};

/** State of files right before a task changed them. */
export type Checkpoint = {
  /** The number of the event that saved it. What changed files from there on is undone by a restore. */
  seq: number;
  /** The task that changed the files. */
  taskId: TaskId;
  /** Time, in milliseconds since the Unix epoch. */
  at: number;
  /** The changed files. */
  files: CheckpointFile[];
  /** What changed them, in one line. */
  summary: string;
};

/** A file of a checkpoint. */
export type CheckpointFile = {
  /** Relative to the first workspace folder; a full path elsewhere. */
  path: string;
  /** What was done to it. */
  change: FileChangeKind;
  /** Reason why its earlier content can't be restored; absent where it can. */
  leftOut?: string | null;
};

/** What a change does to a file. */
export type FileChangeKind = "created" | "changed" | "deleted";

/** `roo/checkpoint/diff` */
export type CheckpointDiffParams = {
  /** The task. What its branches changed is compared too. */
  taskId: TaskId;
  /** The earlier checkpoint. */
  from: number;
  /** The later checkpoint; absent for the files as they are now. */
  to?: number | null;
};

/** Result of `roo/checkpoint/diff`. */
export type CheckpointDiffResult = {
  /** The files that differ, by path. */
  files: FileDiff[];
  /** Files of which no content is kept. */
  leftOut: LeftOutFile[];
};

/** `roo/checkpoint/restore` */
export type CheckpointRestoreParams = {
  /** The task. */
  taskId: TaskId;
  /** The number of an event: what it and later ones did is undone. A checkpoint, a user's message, an earlier restore. */
  seq: number;
  /** What is restored. */
  what: RestoreWhat;
  /** The tasks whose changes of files are undone. */
  scope?: RestoreScope;
  /** True to be told what would be done, and do nothing. */
  preview?: boolean;
  /** What becomes of files that the user has changed in the same place. */
  conflicts?: RestoreConflicts;
  /** The `digest` of the preview that the user has seen: nothing is restored where it would be something else by now. */
  digest?: Digest | null;
};

/** What a restore brings back. */
export type RestoreWhat = "files" | "conversation" | "both";

/** The tasks whose changes a restore undoes. */
export type RestoreScope = "task" | "subtree" | "request";

/** `roo/tree/get`. */
export type TreeGetParams = {
  /** Any task of the request; the drawing marks it. */
  taskId: TaskId;
};

/** Result of `roo/tree/get`. */
export type TreeGetResult = {
  /** All branches, parents before children. */
  nodes: TreeNode[];
  /** The tree as prompts show it. */
  text: string;
};

/** One branch of the invocation tree: one mode at work on one task. */
export type TreeNode = {
  /** The task. */
  id: TaskId;
  /** The task that delegated it; none for the root. */
  parentId?: TaskId | null;
  /** The slug of its mode. */
  mode: string;
  /** Emoji of the mode. */
  emoji: string;
  /** Title, in a few words. */
  title: string;
  /** State. */
  state: TaskState;
  /** Start time, in milliseconds since the Unix epoch. */
  startedAt: number;
  /** End time. */
  endedAt?: number | null;
  /** Input and output tokens, cached ones included. */
  tokens: number;
  /** Cost in US dollars. */
  costUsd: number;
};

/** `roo/mode/list` */
export type ModeListParams = Record<string, never>;

/** Result of `roo/mode/list`. */
export type ModeListResult = {
  /** The modes that count now, the built-in ones first. */
  modes: ModeItem[];
  /** The slug of the mode in which a request begins that names none, by the user's settings. */
  defaultMode: string;
  /** Problems with the files that define modes. */
  problems: CustomizationProblem[];
};

/** A mode, for choosing one. */
export type ModeItem = {
  /** Names it in requests and settings. */
  slug: string;
  /** For people. */
  name: string;
  /** Marks it in lists and trees. */
  emoji: string;
  /** Description, in a few words. */
  description?: string | null;
  /** Guidance on when to choose it. */
  whenToUse?: string | null;
  /** Source: `built-in`, `global` or `project`. */
  source: string;
  /** The slugs of the modes to which it may delegate. */
  canDelegateTo: string[];
  /** The names of its tools. */
  tools: string[];
  /** The pattern of the files that it may change; all that its tools reach when none. */
  fileRegex?: string | null;
};

/** Problem with a file of a user or a workspace. */
export type CustomizationProblem = {
  /** The file's absolute path. */
  path: string;
  /** From 1; none when the file as a whole is meant. */
  line?: number | null;
  /** In characters, from 1. */
  column?: number | null;
  /** True if something does not count because of it. */
  error: boolean;
  /** Problem and remedy. */
  message: string;
};

/** `roo/mode/switch` */
export type ModeSwitchParams = {
  /** The task; its next turn is made in that mode, with the model that the settings give it. */
  taskId: TaskId;
  /** The slug of the mode. */
  mode: string;
};

/** `roo/profile/list` */
export type ProfileListParams = Record<string, never>;

/** Result of `roo/profile/list`. */
export type ProfileListResult = {
  /** The profiles, by name. */
  profiles: ProfileItem[];
};

/** A profile, for choosing one. Where it leads and with which key is nobody's business. */
export type ProfileItem = {
  /** Names it in requests and settings. */
  name: string;
  /** True if modes without a profile of their own work with it. */
  isDefault: boolean;
  /** Provider that serves it, such as `anthropic`. */
  provider: string;
  /** The model's name at its endpoint. */
  model?: string | null;
  /** Number of tokens that a request and its answer may have together, where that is known. */
  contextWindow?: number | null;
  /** Number of tokens that an answer may have, where that is known. */
  maxTokens?: number | null;
  /** Prices, if known. */
  pricePerMillion?: ModelPrice | null;
};

/** US dollars for a million tokens. */
export type ModelPrice = {
  /** Input that the provider's cache does not know. */
  input: number;
  /** Output. */
  output: number;
  /** Input read from the provider's cache. */
  cacheRead: number;
  /** Input written to the provider's cache. */
  cacheWrite: number;
};

/** `roo/profile/select` */
export type ProfileSelectParams = {
  /** The task; its next turn is made with that model. */
  taskId: TaskId;
  /** The name of the profile. */
  profile: string;
};

/** `roo/profile/test`: one short request. */
export type ProfileTestParams = {
  /** The name of a profile; the default one when absent. */
  profile?: string | null;
  /** What a form makes of it, or of a profile that is not there yet. */
  draft?: ProfileDraft | null;
};

/**
 * A profile as a form has it. A field that is absent stays as it is in the profile that is there already, and `null`
 * removes it. Where the provider or the address is another one, nothing of that profile stays, headers and key included:
 * what it sent to one endpoint is not for another.
 */
export type ProfileDraft = {
  /** Provider that serves the model, such as `anthropic`. */
  provider: string;
  /** The model's name at the endpoint. */
  model?: string | null;
  /** The endpoint, where it is not the provider's own. */
  baseUrl?: string | null;
  /** Format of requests, where it is not what the provider usually speaks. */
  wireFormat?: string | null;
  /** Source of the key; `null` for the provider's usual one, or for none. */
  key?: KeySource | null;
  /** `native` or `xml`. */
  toolProtocol?: string | null;
  /** Amount of thinking before the model answers, as in the settings. */
  reasoning?: string | null;
  /** Number of tokens that a request and its answer may have together, in place of the catalogue's figure. */
  contextWindow?: number | null;
  /** Number of tokens that an answer may have. */
  maxTokens?: number | null;
  /** Prices, in place of the catalogue's. */
  pricePerMillion?: ModelPrice | null;
};

/** Source of a profile's key. The settings file never holds the key itself. */
export type KeySource = {
  from: "environment";
  /** Its name. */
  variable: string;
} | {
  from: "command";
  /** The program and its arguments; no shell. */
  command: string[];
} | {
  from: "keyring";
  /** The key. */
  key: string;
} | {
  from: "file";
  /** The key. */
  key: string;
};

/** Result of a short request to a profile's model. */
export type ProfileTestResult = {
  /** True if the model answered. */
  works: boolean;
  /** A sentence for the user: the time and the price of the answer, or what is wrong and what to do. */
  message: string;
  /** Milliseconds from the request to the end of the answer. */
  tookMs?: number | null;
  /** Price of the request in US dollars, where prices are known. */
  costUsd?: number | null;
};

/** `roo/profile/save`: writes a profile to the user's settings file, with all comments kept, once its model has answered. */
export type ProfileSaveParams = {
  /** The name of the profile. */
  profile: string;
  /** What it is to be. */
  draft: ProfileDraft;
  /** Modes without a profile of their own are to work with it. */
  isDefault?: boolean;
  /** Write it even if its model does not answer. */
  untested?: boolean;
};

/** Result of `roo/profile/save`. */
export type ProfileSaveResult = {
  /** True if it was written; it counts from the next turn on. */
  saved: boolean;
  /** A sentence for the user: what was written where, or why nothing was. */
  message: string;
  /** What the model answered. */
  test: ProfileTestResult;
  /** What the user should know besides, such as that another layer of the settings takes precedence. */
  warnings: string[];
};

/** `roo/profile/delete`: takes a profile out of the user's settings file. A key that was stored for it stays. */
export type ProfileDeleteParams = {
  /** The name of the profile. */
  profile: string;
};

/** Result of `roo/profile/delete`. */
export type ProfileDeleteResult = {
  /** What the user should know, such as which profile counts now. */
  warnings: string[];
};

/** `roo/model/list` */
export type ModelListParams = {
  /** The profile whose endpoint is asked; the default one when absent. */
  profile?: string | null;
  /** A provider whose own endpoint is asked instead, as for a profile that is still to be made. */
  provider?: string | null;
  /** A profile that a form is making: its endpoint is asked, with its key. */
  draft?: ProfileDraft | null;
};

/** Result of `roo/model/list`. */
export type ModelListResult = {
  /** The models, in the endpoint's order. */
  models: ModelItem[];
};

/** A model: what the endpoint says of it, and what the catalogue knows besides. */
export type ModelItem = {
  /** Its name in settings. */
  id: string;
  /** Number of tokens that a request and its answer may have together. */
  contextWindow?: number | null;
  /** Number of tokens that an answer may have. */
  maxTokens?: number | null;
  /** Prices, if known. */
  pricePerMillion?: ModelPrice | null;
  /** True if it sees images. */
  images?: boolean | null;
  /** True if it can think before it answers. */
  reasoning?: boolean | null;
  /** True if it calls tools natively. */
  nativeTools?: boolean | null;
};

/** `roo/command/list` */
export type CommandListParams = Record<string, never>;

/** Result of `roo/command/list`. */
export type CommandListResult = {
  /** The slash commands that a message may use now, by name; then the prompts of MCP servers. */
  commands: CommandItem[];
};

/** A slash command, for choosing one. */
export type CommandItem = {
  /** Name after the `/`; `server:prompt` for a prompt of an MCP server. */
  name: string;
  /** Description, in one line. */
  description?: string | null;
  /** Hint about its arguments. */
  argumentHint?: string | null;
  /** The slug of the mode that it switches to; may be unknown. */
  mode?: string | null;
  /** Source: `built-in`, `global`, `project`, or `mcp`. */
  source: string;
};

/** `roo/prompt/complete` */
export type PromptCompleteParams = {
  /** The prompt up to the cursor. */
  prompt: string;
};

/** Result of `roo/prompt/complete`. */
export type PromptCompleteResult = {
  /** The end of the prompt that each item replaces, such as `@src/ca`; empty where nothing is to be completed. */
  replaced: string;
  /**
   * The items, the best one first. For files that is how well the path fits, then what is open in the editor, then
   * what was changed last; what agents may not see is not among them.
   */
  items: PromptItem[];
  /** True if there are more for what was typed so far: ask again with the next letter. */
  isIncomplete: boolean;
};

/** Something that a prompt can name. */
export type PromptItem = {
  /** The text for the prompt, such as `@src/cart.py` or `/code`. */
  text: string;
  /** Kind of what it names. */
  kind: PromptItemKind;
  /** A line about it. */
  detail?: string | null;
};

/** Kinds of what a prompt can name. */
export type PromptItemKind = "file" | "image" | "folder" | "keyword" | "mode" | "command" | "symbol";

/** Result of `roo/context/get`. */
export type ContextGetResult = {
  /** The size of the next model request; none before the first one has its answer. */
  context?: ContextMeter | null;
  /** What was shortened, oldest first. */
  shortenings: Shortening[];
};

/** `roo/context/restore`. */
export type ContextRestoreParams = {
  /** The task. */
  taskId: TaskId;
  /** The `seq` of the shortening to undo. */
  seq: number;
};

/** `roo/command/stop`. */
export type CommandStopParams = {
  /** A task of the request that the command belongs to. */
  taskId: TaskId;
  /** The command in the background. */
  commandId: CommandId;
};

/** One command that runs in the background, `cmd-` and a number. Unique within the request. */
export type CommandId = string;

/** `roo/trust/get` and `roo/trust/revoke` */
export type TrustParams = Record<string, never>;

/** Trust in a workspace, and the files that it is about. */
export type TrustReport = {
  /** True if what the workspace brings may steer agents. */
  trusted: boolean;
  /**
   * Files by which the workspace steers agents, as paths relative to its first folder, with the built-in modes that
   * are replaced: `.roomodes (replaces code)`. Without trust it has no effect.
   */
  brings: string[];
  /** What a trusted workspace's files would give a mode beyond what it has, and waits for the user's approval. */
  pendingApprovals: PendingTrust[];
  /** The modes of a trusted workspace of which none has `canDelegateTo`; none where there is nothing to ask. */
  delegation?: TeamDelegation | null;
  /**
   * The user's own modes of which none has `canDelegateTo`; none where there is nothing to ask. The answer counts in every
   * workspace.
   */
  ownDelegation?: TeamDelegation | null;
};

/** Something of a file that waits for an approval. */
export type PendingTrust = {
  /** Relative to the workspace's first folder. */
  path: string;
  /** Of the file as it is and what it widens. To be granted as it is here. */
  digest: Digest;
  /** What is asked. */
  kind?: PendingKind;
  /** Additional permissions that it would give, one line a mode. */
  widens: string[];
};

/** Kinds of what waits for an approval. */
export type PendingKind = "file" | "delegation";

/** Modes of a file that the user may let delegate to each other. */
export type TeamDelegation = {
  /** The file: the workspace's relative to its first folder, one of the user's own as a whole path. */
  path: string;
  /** Their slugs. */
  modes: string[];
  /** The user's answer; none where it is still pending. */
  allowed?: boolean | null;
};

/** `roo/trust/grant`: without fields the workspace as a whole, with both fields one file as it is. */
export type TrustGrantParams = {
  /** The file, as in `pendingApprovals`. */
  path?: string | null;
  /** Its digest, as in `pendingApprovals`: what the user has seen. */
  digest?: Digest | null;
  /**
   * True for the answer no, which is kept, so that this isn't asked again. Only for what has the kind `delegation`; all
   * else waits until it is granted.
   */
  refuse?: boolean;
};

/** `roo/intent/list` */
export type IntentListParams = Record<string, never>;

/** Result of `roo/intent/list`. */
export type IntentListResult = {
  /** True if the workspace has a file of intents. Without one, everything in it may be asked for. */
  governed: boolean;
  /** The intents that can be used, in the order of the file. */
  intents: IntentItem[];
  /** Problems with the file or with other intents of it. While the file can't be read, nothing may be changed. */
  problems: string[];
};

/** An intent. */
export type IntentItem = {
  /** Its id. */
  intentId: string;
  /** Display name. */
  name: string;
  /** `PENDING`, `IN_PROGRESS`, `BLOCKED`, `COMPLETED` or `ABANDONED`. */
  status: string;
  /** The globs of the files that may be changed; a leading `!` excludes. */
  ownedScope: string[];
  /** Constraints. */
  constraints: string[];
  /** Acceptance criteria. */
  acceptanceCriteria: string[];
  /** Of what governs. */
  digest: Digest;
  /** True if a task may select it. */
  selectable: boolean;
  /** Permissions beyond those that the user has accepted; a task that selects it asks the user first. */
  loosened: string[];
};

/** `roo/intent/select` */
export type IntentSelectParams = {
  /** The task that is bound; not a branch. */
  taskId: TaskId;
  /** The intent's id. */
  intentId: string;
  /** Of what governs, as the user has seen it. */
  digest: Digest;
};

/** `roo/intent/create` */
export type IntentCreateParams = {
  /** A letter, then letters, digits, `.`, `_` and `-`. */
  intentId: string;
  /** Display name. */
  name: string;
  /** The globs of the files that may be changed. */
  ownedScope: string[];
  /** Constraints. */
  constraints?: string[];
  /** Acceptance criteria. */
  acceptanceCriteria?: string[];
};

/** `roo/intent/update`. What is left out stays. */
export type IntentUpdateParams = {
  /** The intent's id. */
  intentId: string;
  /** Its new name. */
  name?: string | null;
  /** New status. */
  status?: string | null;
  /** Patterns that no longer belong to its scope. */
  removeScope?: string[];
  /** Additional constraints. */
  addConstraints?: string[];
  /** Constraints to remove. */
  removeConstraints?: string[];
  /** The `digest` of the answer that showed what this allows: the user's consent to just that. */
  accept?: Digest | null;
};

/** Result of `roo/intent/update` and `roo/intent/expand`. */
export type IntentChangeResult = {
  /** True if the file was changed. */
  changed: boolean;
  /**
   * Permissions of the change beyond those that the user has accepted. Not empty means that nothing was changed:
   * show it, and send the request again with `accept`.
   */
  loosens: string[];
  /** Of what governs after the change. */
  digest: Digest;
};

/** `roo/intent/expand` */
export type IntentExpandParams = {
  /** The intent's id. */
  intentId: string;
  /** The patterns that its scope gets. */
  patterns: string[];
  /** The `digest` of the answer that showed what this allows: the user's consent to just that. */
  accept?: Digest | null;
};

/** `roo/rule/list` */
export type RuleListParams = Record<string, never>;

/** Result of `roo/rule/list`. */
export type RuleListResult = {
  /** The rules of this workspace, the oldest first, then those of the user's that count in all workspaces. */
  rules: RuleItem[];
};

/** A standing rule. */
export type RuleItem = {
  /** Its id. */
  ruleId: string;
  /** Effect of the rule. */
  verdict: RuleVerdict;
  /** Subject. */
  subject: RuleSubject;
  /** Scope. */
  scope?: RuleScope;
  /** The same in a sentence. */
  text: string;
  /** Creation time, in milliseconds since the Unix epoch. */
  createdAt: number;
  /** Author of the rule. */
  by: string;
};

/** Effect of a standing rule. */
export type RuleVerdict = "allow" | "deny";

/** Scope of a standing rule. */
export type RuleScope = "workspace" | "user";

/** `roo/rule/revoke` */
export type RuleRevokeParams = {
  /** The rule's id. */
  ruleId: string;
};

/** `roo/trace/query`: which records are wanted; all of them where nothing is said. */
export type TraceQueryParams = {
  /** Of this intent. */
  intentId?: string | null;
  /** Of this task or its branches; the beginning of its id is enough. */
  taskId?: string | null;
  /** Of this request; the beginning of its URID is enough. */
  urid?: string | null;
  /** In this mode. */
  mode?: string | null;
  /** By this model, with its provider or without. */
  model?: string | null;
  /** About this file, or files below this directory, relative to the first folder. */
  path?: string | null;
  /** That ended so. */
  outcome?: TraceOutcome | null;
  /** Not before this, in milliseconds since the Unix epoch. */
  since?: number | null;
  /** Before this, in milliseconds since the Unix epoch. */
  until?: number | null;
  /** Only the newest ones: 100 when left out, 1000 at most. */
  limit?: number | null;
};

/** Outcome of a call. */
export type TraceOutcome = "ok" | "denied" | "failed" | "scope_violation" | "interrupted";

/** Result of `roo/trace/query`. */
export type TraceQueryResult = {
  /** Agent Trace records, oldest first, as they stand in the trace. */
  records: unknown[];
};

/** `roo/mcp/list` */
export type McpListParams = Record<string, never>;

/** Result of `roo/mcp/list`, and `roo/mcp/changed`, which a client gets for each change after it has listed the servers once. */
export type McpListResult = {
  /** The servers that are configured, by name. */
  servers: McpServerItem[];
};

/** An MCP server that is configured. */
export type McpServerItem = {
  /** Its name. */
  name: string;
  /** Owner of its entry. */
  owner: McpOwner;
  /** The program with its arguments, or the address, as it is configured: references are not filled in. */
  target: string;
  /** State. */
  state: McpServerState;
  /** Reason why it can't be used, and what to do. */
  reason?: string | null;
  /** Number of seconds after which it is started again; none when that is left to the user. */
  retryAfter?: number | null;
  /** Number of tools that models get. */
  tools: number;
  /** Number of resources and patterns of resources. */
  resources: number;
  /** Number of prompts. */
  prompts: number;
};

/** Owner of the entry of an MCP server. */
export type McpOwner = "user" | "workspace";

/** State of an MCP server. */
export type McpServerState = "disabled" | "waitingForApproval" | "notStarted" | "starting" | "needsLogin" | "connected" | "failed";

/** `roo/mcp/tools`, `roo/mcp/log` and `roo/mcp/restart` */
export type McpServerParams = {
  /** Name of the server. */
  server: string;
};

/** Result of `roo/mcp/tools`. What the server says of its tools is untrusted. */
export type McpToolsResult = {
  /** The tools that models get, in the server's order; none while it is not connected. */
  tools: McpToolItem[];
  /** The tools that models don't get. */
  leftOut: McpLeftOutTool[];
};

/** A tool of an MCP server. */
export type McpToolItem = {
  /** Its name. */
  name: string;
  /** A name for people. */
  title?: string | null;
  /** Description, in one line. */
  description: string;
  /** True if `alwaysAllow` of the user's own `mcp.json` names it. */
  alwaysAllowed: boolean;
};

/** A tool that models don't get. */
export type McpLeftOutTool = {
  /** Its name. */
  name: string;
  /** Reason why not. */
  reason: string;
};

/** Result of `roo/mcp/log`. */
export type McpLogResult = {
  /**
   * The newest lines, the oldest of them first: of its standard error, of its log messages, and of what went wrong with
   * it. Untrusted.
   */
  lines: string[];
};

/** `roo/mcp/enable` */
export type McpEnableParams = {
  /** Name of the server. */
  server: string;
  /** False to switch it off: `disabled` of its entry is changed, and nothing else of the file. */
  enabled: boolean;
};

/** `roo/autoApprove/get` */
export type AutoApproveGetParams = Record<string, never>;

/** Result of `roo/autoApprove/get`. What the user has allowed permanently comes on top: `roo/rule/list`. */
export type AutoApproveGetResult = {
  /** The settings below `autoApprove`, as they count now. */
  settings: AutoApproveItem[];
};

/** A setting below `autoApprove`. */
export type AutoApproveItem = {
  /** Its key below `autoApprove`, such as `write` or `execute.mode`. */
  key: string;
  /** Its value as it counts. */
  value: unknown;
  /** How much of what it is about runs without a question; absent for lists. */
  unasked?: Unasked | null;
  /**
   * The layer that it comes from: a file with its line, `initializationOptions`, or `workspace/configuration`, which
   * only takes away. Absent for the default.
   */
  origin?: string | null;
};

/** How much runs without a question. */
export type Unasked = "none" | "some" | "all";

/**
 * `roo/options/didChange`: the client's `initializationOptions` are others now. They count from the next turn on, but
 * for `protocolVersion`, `documentSave` and `codeAsk`.
 */
export type OptionsDidChangeParams = {
  /** All of them, in place of those before. As at the start only the user's own settings belong in there. */
  options: unknown;
};

/** `roo/editor/didChange`: where the user's attention is. Replaces what was said before. */
export type EditorDidChangeParams = {
  /** The file that has the focus; none when no file has it. */
  active?: ActiveEditor | null;
};

/** The file that has the focus. */
export type ActiveEditor = {
  /** A `file:` URI. */
  uri: string;
  /** Position of the cursor. */
  cursor?: Position | null;
  /** Visible lines. */
  visible?: Range | null;
};

/**
 * `roo/editor/diagnostics`: what other language servers and tools find wrong in a file. Replaces what was
 * said of that file before.
 */
export type EditorDiagnosticsParams = {
  /** A `file:` URI. */
  uri: string;
  /** All of it; empty when nothing is wrong any more. */
  diagnostics: EditorDiagnostic[];
};

/** Something wrong in a file: the part of LSP's `Diagnostic` that is of use here. */
export type EditorDiagnostic = {
  /** Range. */
  range: Range;
  /** Severity; an error when left out. */
  severity?: DiagnosticSeverity;
  /** Program that reports it. */
  source?: string | null;
  /** Message. */
  message: string;
};

/** How bad a diagnostic is: 1 error, 2 warning, 3 information, 4 hint. */
export type DiagnosticSeverity = 1 | 2 | 3 | 4;

/** `roo/document/save`, from the server. */
export type DocumentSaveParams = {
  /** The documents to save. */
  uris: string[];
};

/** Answer of a client to `roo/document/save`. */
export type DocumentSaveResult = {
  /** The documents that are saved now. */
  saved: string[];
};

/** `roo/code/ask`, from the server: what the language servers of the editor know. */
export type CodeAskParams = {
  /** The question. */
  question: CodeQuestionKind;
  /** The file that it is about. It need not be open. */
  uri: string;
  /** The place in it, in the text as the editor has it, counted in the negotiated encoding. */
  position: Position;
  /** Part of a name, for `symbols`. */
  query?: string | null;
  /** The new name, for `rename`. */
  newName?: string | null;
  /** The title of the action, for `action`. */
  title?: string | null;
};

/** Kinds of questions about code. */
export type CodeQuestionKind = "references" | "definition" | "symbols" | "hover" | "rename" | "actions" | "action";

/** Answer of a client to `roo/code/ask`. */
export type CodeAskResult = {
  /** False if no language server of the editor answers for the file: the server asks one of its own then. */
  isKnown: boolean;
  /** Places, for `references` and `definition`. */
  places?: CodePlace[];
  /** Symbols, for `symbols`. */
  symbols?: CodeSymbol[];
  /** Text, for `hover`. */
  text?: string | null;
  /** Actions, for `actions`. */
  actions?: OfferedCodeAction[];
  /** Proposed changes, for `rename` and `action`: each file once. */
  files?: ProposedFileEdits[];
  /** Why nothing is proposed, in the words of the language server, for `rename` and `action`. */
  refusal?: string | null;
};

/** A line of a file. */
export type CodePlace = {
  /** The file. */
  uri: string;
  /** Zero-based line. */
  line: number;
};

/** A symbol of a project. */
export type CodeSymbol = {
  /** Its name. */
  name: string;
  /** Its kind by the number that LSP has for it. */
  kind: number;
  /** Name of what it is in. */
  container?: string | null;
  /** Where it is defined. */
  place: CodePlace;
};

/** A fix or a refactoring that a language server of the editor offers. */
export type OfferedCodeAction = {
  /** Its title, by which it is asked for. */
  title: string;
  /** Its kind, such as `quickfix`. */
  kind?: string | null;
  /** True if it is what most users want. */
  isPreferred?: boolean;
};

/** Proposed changes of a file's text. */
export type ProposedFileEdits = {
  /** The file. */
  uri: string;
  /** The version of the document that they are about; none for a file that is not open, of which they are about the text on disk. */
  version?: number | null;
  /** The changes, all against the text before, counted in the negotiated encoding. */
  edits: ProposedTextEdit[];
};

/** New text for a range. */
export type ProposedTextEdit = {
  /** Range in the text before. */
  range: Range;
  /** Text to put there. */
  newText: string;
};

/** The parameters of `roo/event`. */
export type EventParams = {
  /** The request (its root task). */
  rootId: TaskId;
  /** The task that this is about. */
  taskId: TaskId;
  /** The place in the request's log, gapless from 1. Absent on live-only events. */
  seq?: number | null;
  /** On a merged item, the first `seq` that it stands for. */
  from?: number | null;
  /** Time, in milliseconds since the Unix epoch. */
  at: number;
  /** Event. */
  event: Event;
};

/** Event of a request. Clients ignore types and fields that they don't know. */
export type Event = {
  type: "task.created";
  /** The task that delegated it; none for a root. */
  parentId?: TaskId | null;
  /** The request's id for people. */
  urid: Urid;
  /** The slug of its mode. */
  mode: string;
  /** Its prompt on one line, shortened. */
  title: string;
  /** Emoji of its mode. */
  emoji?: string;
} | {
  type: "task.forked";
  /** The fork's id for people. */
  urid: Urid;
  /** Its title from now on. */
  title: string;
  /** Where it begins. */
  from: ForkOrigin;
} | {
  type: "task.imported";
  /** The other program's task. */
  from: ImportOrigin;
} | {
  type: "task.state";
  /** The new state. */
  state: TaskState;
  /** The result of a completed task. */
  result?: string | null;
  /** Reason, where it isn't obvious. */
  reason?: string | null;
  /** Totals so far, at the end of a task. */
  usage?: Usage | null;
  /** Calls and failures of each tool, at the end of a task. */
  toolUsage?: ToolUsage;
} | {
  type: "message";
  /** The message; replaces an earlier one of the same id. */
  message: Message;
} | {
  type: "message.delta";
  /** The message. */
  id: MessageId;
  /** `text` or `reasoning`, so that a client can show it before it closes. */
  say: Say;
  /** Offset of the text from the message's beginning, in UTF-8 bytes. */
  offset: number;
  /** The text to put there. */
  text: string;
} | {
  type: "tool.output";
  /** The call. */
  toolCallId: ToolCallId;
  /**
   * Offset of the text from the output's beginning, in UTF-8 bytes. A jump means that output was dropped for a
   * slow client; the whole is in the result.
   */
  offset: number;
  /** The text to put there. */
  text: string;
} | {
  type: "tool.started";
  /** The call. */
  toolCallId: ToolCallId;
  /** The tool's name. */
  name: string;
  /** Subject of the call: a path, a command, a question. */
  subject: string;
} | {
  type: "gate.decided";
  /** The call. */
  toolCallId: ToolCallId;
  /** The verdict. */
  verdict: Verdict;
  /** The rule that decided, such as `autoApprove.read` or `protected`. */
  rule: string;
  /** Reason, in words. */
  reason: string;
  /** The same for programs: a `code`, and what it is about. */
  detail?: unknown;
} | {
  type: "intent.selected";
  /** The intent's id. */
  intentId: string;
  /** Display name. */
  name: string;
  /** Of what governs. */
  digest: Digest;
} | {
  type: "tool.finished";
  /** The call. */
  toolCallId: ToolCallId;
  /** Status at the end. */
  status: ToolStatus;
  /** One line on what came of it. */
  summary: string;
  /** The exit code of the command; none where no command has ended by itself. */
  exitCode?: number | null;
  /** Pictures that the model gets of it, such as those of the browser, as data URLs. The summary says how many. */
  images?: string[];
} | {
  type: "command.backgrounded";
  /** The command. */
  commandId: CommandId;
  /** The call that began it. */
  toolCallId: ToolCallId;
  /** The command line. */
  command: string;
} | {
  type: "command.ended";
  /** The command. */
  commandId: CommandId;
  /** The call that began it. */
  toolCallId: ToolCallId;
  /** Status at the end. */
  status: ToolStatus;
  /** One line on what came of it. */
  summary: string;
  /** The exit code of the command; none where no command has ended by itself. */
  exitCode?: number | null;
} | {
  type: "approval.requested";
  /** Answer with this id. */
  approvalId: ApprovalId;
  /** The call that waits. */
  toolCallId: ToolCallId;
  /** Binds the answer to this exact action. */
  digest: Digest;
  /** Title, in a few words. */
  title: string;
  /** Subject of the action; a diff, a command line. */
  subject: string;
  /** Reason why it is asked. */
  reason: string;
  /** The possible answers, the harmless one first. */
  options: ApprovalOption[];
  /** True if the subject is so long that its user has to open it in full before they can allow it. */
  mustOpen?: boolean;
  /** Subject of the standing rule that the answers `allow_always` and `reject_always` make. */
  rule?: RuleSubject | null;
  /** Subject of the standing rule that the answers `allow_preset` and `allow_commands` make. */
  alternative?: RuleSubject | null;
  /**
   * True if it changes several files. It may then be answered by `review_once` besides, where the editor confirms
   * annotated edits: its user chooses there among the changes.
   */
  reviewable?: boolean;
} | {
  type: "approval.resolved";
  /** The approval. */
  approvalId: ApprovalId;
  /**
   * Author of the answer, to be shown: a client's name, `cli` for a terminal, `server` when it became void, or `rule` with
   * the id of the standing rule that decided it, as in `rule r3`. A client with such a name has `client` before it.
   */
  by: string;
  /** The id of that rule, which `roo/rule/list` has, with its sentence. */
  ruleId?: string | null;
  /** The chosen option; none when void or decided by a rule. */
  optionId?: string | null;
  /** The user's words, whole. */
  text?: string | null;
  /** The decision on each hunk, where the user answered hunk by hunk. */
  hunks?: ReviewedHunk[];
} | {
  type: "question.asked";
  /** Answer with this id. */
  questionId: QuestionId;
  /** Kind of question. */
  kind: QuestionKind;
  /** The question. */
  text: string;
  /** Suggested answers; any other text is allowed too. */
  suggestions: Suggestion[];
  /** True if the answer looks like a secret by what is asked: clients hide it while it is typed, and it is not kept. */
  secret?: boolean;
} | {
  type: "question.answered";
  /** The question. */
  questionId: QuestionId;
  /** Author of the answer. */
  by: string;
  /** The answer; none when void. */
  text?: string | null;
} | {
  type: "edit.applied";
  /** The document. */
  uri: string;
  /** The digest before; none for a new file. */
  before?: Digest | null;
  /** The digest after; none for a deleted file. */
  after?: Digest | null;
} | {
  type: "mode.switched";
  /** The slug of its mode from now on; none when it stays. */
  mode?: string | null;
  /** The name of its model profile from now on; none when it stays. */
  profile?: string | null;
} | {
  type: "tree.changed";
  /** All branches, parents before children. */
  nodes: TreeNode[];
} | {
  type: "todo.changed";
  /** The whole list. */
  items: TodoItem[];
} | {
  type: "queue.changed";
  /** The whole queue. */
  items: QueueItem[];
} | {
  type: "restore.started";
  /** The number of the event before which the state was. */
  seq: number;
  /** What is restored. */
  what: RestoreWhat;
  /** The changed files. */
  files: CheckpointFile[];
  /** Author: a client's name, or `cli`. */
  by: string;
} | {
  type: "restore.finished";
  /** The number of the event that started it, by which it can be undone. */
  seq: number;
  /** True if it was restored, false if nothing was. */
  done: boolean;
  /** Reason, where not all was restored: a server that was killed had not come to the files of every folder. */
  reason?: string | null;
  /** The number of the first event that the model no longer sees; absent where the conversation stays. */
  conversationBefore?: number | null;
} | {
  type: "usage";
  /** Input tokens, without those read from or written to the provider's cache. */
  tokensIn?: number;
  /** Output tokens. */
  tokensOut?: number;
  /** Input tokens read from the provider's cache. */
  cacheReads?: number;
  /** Input tokens written to the provider's cache. */
  cacheWrites?: number;
  /** Cost in US dollars, from the profile's prices or the provider's own word. */
  costUsd?: number;
  /** The size of the newest model request. */
  context?: ContextMeter | null;
} | {
  type: "context.shortening";
  /** Way to shorten it. A summary may take a while. */
  method: ShorteningMethod;
} | {
  type: "context.shortened";
  /** Way in which it was shortened. */
  method: ShorteningMethod;
  /** Estimated tokens of the next request before. */
  tokensBefore: number;
  /** Estimated tokens of the next request after. */
  tokensAfter: number;
  /** Number of results in place of which there are placeholders. */
  results?: number;
  /** Number of calls whose large arguments are placeholders. */
  arguments?: number;
  /** The summary or the outline in place of earlier turns. */
  summary?: string | null;
  /** Cost of the summary in US dollars. */
  costUsd?: number;
} | {
  type: "context.kept";
  /** Reason. */
  reason: string;
} | {
  type: "context.restored";
  /** The `seq` of the shortening. */
  seq: number;
  /** Estimated tokens of the next request before. */
  tokensBefore: number;
  /** Estimated tokens of the next request after. */
  tokensAfter: number;
} | {
  type: "retry.scheduled";
  /** Time, in milliseconds since the Unix epoch. */
  at: number;
  /**
   * Number of the attempt that is made then, from 1. It is 1 where the request has not failed yet, or another
   * profile takes over.
   */
  attempt: number;
  /** Reason. */
  reason: string;
} | {
  type: "server.degraded";
  /** Reason and remedy. */
  reason: string;
  /** What ends it. Absent where nothing does, as with a damaged log. */
  until?: DegradedUntil | null;
} | {
  type: "server.recovered";
};

/** A gate's verdict. */
export type Verdict = "allow" | "ask" | "deny";

/** A hunk with the decision on it, as it was recorded. */
export type ReviewedHunk = {
  /** The hunk. */
  hunkId: HunkId;
  /** Of the exact change. */
  digest: Digest;
  /** What it does. */
  kind?: HunkKind;
  /** The file, relative to its workspace folder, or absolute outside of the first one. */
  path: string;
  /** First line, counted from 1, of what the file holds for it once the answer is carried out. */
  line: number;
  /** The lines before. */
  oldText: string;
  /** The proposed lines. */
  newText: string;
} & ({
  decision: "accept";
} | {
  decision: "refuse";
  /** The user's words; the model is told. */
  text?: string | null;
} | {
  decision: "edit";
  /** These. */
  text: string;
});

/** End of reduced function. */
export type DegradedUntil = "recovered" | "attached";

/** `roo/settings/changed`: other settings count from the next turn on, or other problems with them are known. */
export type SettingsChangedParams = {
  /** What is wrong with them now, a line each. The user was told already. */
  problems: string[];
};

/** The `data` of a failed request. */
export type ErrorData = {
  /** Kind of failure. */
  kind: ErrorKind;
  /** The task concerned. */
  taskId?: TaskId | null;
  /** Remedy for the user. */
  hint: string;
};

/** Kind of failure that a `-32803` answer reports. */
export type ErrorKind = "overloaded" | "notFound" | "heldElsewhere" | "wrongState" | "mismatch" | "configuration" | "storage" | "disconnected";

/** Requests of the client. */
export interface Requests {
  "roo/task/start": { params: TaskStartParams; result: TaskStartResult };
  "roo/task/send": { params: TaskSendParams; result: Done };
  "roo/task/fork": { params: TaskForkParams; result: TaskForkResult };
  "roo/task/cancel": { params: TaskParams; result: Done };
  "roo/task/resume": { params: TaskParams; result: Done };
  "roo/task/edit": { params: TaskEditParams; result: CheckpointRestoreResult };
  "roo/task/attach": { params: TaskAttachParams; result: TaskAttachResult };
  "roo/task/detach": { params: TaskParams; result: Done };
  "roo/task/list": { params: TaskListParams; result: TaskListResult };
  "roo/task/get": { params: TaskParams; result: TaskSnapshot };
  "roo/task/delete": { params: TaskParams; result: TaskDeleteResult };
  "roo/queue/edit": { params: QueueEditParams; result: Done };
  "roo/queue/delete": { params: QueueDeleteParams; result: Done };
  "roo/approval/respond": { params: ApprovalRespondParams; result: AnswerResult };
  "roo/approval/list": { params: ApprovalListParams; result: ApprovalListResult };
  "roo/approval/preview": { params: ApprovalPreviewParams; result: ApprovalPreviewResult };
  "roo/question/answer": { params: QuestionAnswerParams; result: AnswerResult };
  "roo/changes/list": { params: ChangesListParams; result: ChangesListResult };
  "roo/changes/undo": { params: ChangesUndoParams; result: ChangesUndoResult };
  "roo/checkpoint/list": { params: CheckpointListParams; result: CheckpointListResult };
  "roo/checkpoint/diff": { params: CheckpointDiffParams; result: CheckpointDiffResult };
  "roo/checkpoint/restore": { params: CheckpointRestoreParams; result: CheckpointRestoreResult };
  "roo/tree/get": { params: TreeGetParams; result: TreeGetResult };
  "roo/mode/list": { params: ModeListParams; result: ModeListResult };
  "roo/mode/switch": { params: ModeSwitchParams; result: Done };
  "roo/profile/list": { params: ProfileListParams; result: ProfileListResult };
  "roo/profile/select": { params: ProfileSelectParams; result: Done };
  "roo/profile/test": { params: ProfileTestParams; result: ProfileTestResult };
  "roo/profile/save": { params: ProfileSaveParams; result: ProfileSaveResult };
  "roo/profile/delete": { params: ProfileDeleteParams; result: ProfileDeleteResult };
  "roo/model/list": { params: ModelListParams; result: ModelListResult };
  "roo/command/list": { params: CommandListParams; result: CommandListResult };
  "roo/prompt/complete": { params: PromptCompleteParams; result: PromptCompleteResult };
  "roo/context/get": { params: TaskParams; result: ContextGetResult };
  "roo/context/condense": { params: TaskParams; result: Done };
  "roo/context/restore": { params: ContextRestoreParams; result: Done };
  "roo/command/background": { params: TaskParams; result: Done };
  "roo/command/stop": { params: CommandStopParams; result: Done };
  "roo/trust/get": { params: TrustParams; result: TrustReport };
  "roo/trust/grant": { params: TrustGrantParams; result: TrustReport };
  "roo/trust/revoke": { params: TrustParams; result: TrustReport };
  "roo/intent/list": { params: IntentListParams; result: IntentListResult };
  "roo/intent/select": { params: IntentSelectParams; result: Done };
  "roo/intent/create": { params: IntentCreateParams; result: Done };
  "roo/intent/update": { params: IntentUpdateParams; result: IntentChangeResult };
  "roo/intent/expand": { params: IntentExpandParams; result: IntentChangeResult };
  "roo/rule/list": { params: RuleListParams; result: RuleListResult };
  "roo/rule/revoke": { params: RuleRevokeParams; result: Done };
  "roo/trace/query": { params: TraceQueryParams; result: TraceQueryResult };
  "roo/mcp/list": { params: McpListParams; result: McpListResult };
  "roo/mcp/tools": { params: McpServerParams; result: McpToolsResult };
  "roo/mcp/log": { params: McpServerParams; result: McpLogResult };
  "roo/mcp/restart": { params: McpServerParams; result: Done };
  "roo/mcp/enable": { params: McpEnableParams; result: Done };
  "roo/autoApprove/get": { params: AutoApproveGetParams; result: AutoApproveGetResult };
}

/** Notifications of the client. */
export interface ClientNotifications {
  "roo/options/didChange": { params: OptionsDidChangeParams };
  "roo/editor/didChange": { params: EditorDidChangeParams };
  "roo/editor/diagnostics": { params: EditorDiagnosticsParams };
}

/** Requests of the server. */
export interface ServerRequests {
  "roo/document/save": { params: DocumentSaveParams; result: DocumentSaveResult };
  "roo/code/ask": { params: CodeAskParams; result: CodeAskResult };
}

/** Notifications of the server. */
export interface ServerNotifications {
  "roo/event": { params: EventParams };
  "roo/settings/changed": { params: SettingsChangedParams };
  "roo/mcp/changed": { params: McpListResult };
}
