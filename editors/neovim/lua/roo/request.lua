-- One request as its events tell it: tasks, what waits, and the blocks of text that a view shows. Pure: it
-- knows no buffers, and equal events give equal blocks, whether they come live or are replayed.

---@class roo.Block A few lines that belong together.
---@field key string
---@field task roo.Task
---@field kind string
---@field lines string[]
---@field groups? table<integer, string> The highlight group of a line, by its index.
---@field gap boolean Whether the first line is empty, to set it off.
---@field markdown? boolean Whether a model has written it, as Markdown.
---@field marker? integer The length of what the plugin has put before its first line.
---@field quiet boolean Whether it is a fold of its own, closed at first.
---@field open? boolean Whether that fold stays open for now.
---@field length? integer How many bytes of a text that is being written have come.
---@field head? string The beginning of a call that is being written.
---@field ends? integer How many line ends that call has.
---@field printed? roo.Printed What has come of output that is being printed.
---@field approval? roo.Approval
---@field question? roo.Question
---@field rows? integer The view's: how many lines of the buffer it has.

---@class roo.Printed
---@field length integer How many bytes of the output have come.
---@field kept integer How many of them are shown.
---@field left_out boolean Whether the first line says that there is more.
---@field has_end boolean Whether it ends with the end of a line, which is not shown.

---@class roo.Task One branch.
---@field id string
---@field request roo.Request
---@field parent? roo.Task
---@field depth integer
---@field mode string
---@field emoji string
---@field title string
---@field state string
---@field reason? string
---@field tokens? integer What its model requests have used in all.
---@field context? integer The tokens of its next model request, as far as they are known.
---@field window? integer How many tokens its model takes.
---@field items (roo.Block|roo.Task)[]
---@field header roo.Block

---@class roo.Approval
---@field approvalId string
---@field digest string
---@field title string
---@field subject string
---@field reason string
---@field options {id: string, name: string, kind: string, scope?: string}[]
---@field toolCallId string
---@field rule_id? string The standing rule that has decided it.
---@field mustOpen? boolean Whether the subject is too long to be allowed at a glance.
---@field task roo.Task

---@class roo.Question
---@field questionId string
---@field kind string
---@field text string
---@field suggestions {text: string, mode?: string}[]
---@field task roo.Task

---@class roo.View What a view is told; the blocks are in the order of `Request.blocks`.
---@field inserted fun(block: roo.Block, index: integer)
---@field appended fun(block: roo.Block, pieces: string[])
---@field replaced fun(block: roo.Block)
---@field removed fun(block: roo.Block, index: integer)
---@field folded fun(block: roo.Block) Its fold is to be closed.

local highlight = require('roo.highlight')

---@class roo.Request
---@field root string
---@field folder? string The folder of the workspace whose server has it.
---@field urid string
---@field title string
---@field state string
---@field seq integer
---@field tasks table<string, roo.Task>
---@field blocks roo.Block[]
---@field nodes table[]
---@field approvals roo.Approval[]
---@field questions roo.Question[]
---@field is_elsewhere? boolean Begun by another client of the server, and not looked at here yet.
---@field restored? integer The number of the last restore, by which it is undone.
---@field view? roo.View
local Request = {}
Request.__index = Request

--- Output that is longer than this, in lines, is folded.
local QUIET = 8
--- The most that is kept of output that is being printed, in bytes. Once there is more, half of it is let go at a time.
local OUTPUT = 64 * 1024
local LEFT_OUT = '… earlier output left out'

---@param root string
---@return roo.Request
function Request.new(root)
  return setmetatable({
    root = root,
    urid = '',
    title = '',
    state = 'running',
    seq = 0,
    tasks = {},
    blocks = {},
    by_key = {},
    nodes = {},
    approvals = {},
    questions = {},
    calls = {},
    commands = {},
    -- The calls whose commands went on in the background, by task and id.
    backgrounded = {},
    ruled = {},
  }, Request)
end

---@param text string
---@return string[]
local function split(text)
  local lines = vim.split(text, '\n', { plain = true })
  for index, line in ipairs(lines) do
    lines[index] = (line:gsub('\r', ''))
  end
  return lines
end

---@param text string
---@return string
local function first_line(text)
  return (text:match('^[^\n]*'))
end

--- Where a block stands. The newest are looked at first, for they are what changes.
---@param block roo.Block
---@return integer
function Request:index_of(block)
  for index = #self.blocks, 1, -1 do
    if self.blocks[index] == block then
      return index
    end
  end
  error('the block belongs to another request')
end

--- The last block of a branch and everything below it.
---@param task roo.Task
---@return roo.Block
local function last_block(task)
  local last = task.items[#task.items]
  if last == nil then
    return task.header
  end
  return last.items and last_block(last) or last
end

---@param task roo.Task
---@param kind string
---@param key string
---@param lines string[]
---@param settings? {gap?: boolean, quiet?: boolean, markdown?: boolean, marker?: integer, groups?: table<integer, string>, after?: roo.Block}
---@return roo.Block
function Request:insert(task, kind, key, lines, settings)
  settings = settings or {}
  local block = {
    key = task.id .. '/' .. key,
    task = task,
    kind = kind,
    gap = settings.gap or false,
    quiet = settings.quiet or false,
    markdown = settings.markdown,
    marker = settings.marker,
    lines = {},
  }
  self:shape(block, lines, settings.groups)
  local index
  if settings.after then
    index = self:index_of(settings.after) + 1
    for place, item in ipairs(task.items) do
      if item == settings.after then
        table.insert(task.items, place + 1, block)
      end
    end
  else
    index = kind == 'header' and self:place_of_header(task) or self:index_of(last_block(task)) + 1
    if kind ~= 'header' then
      table.insert(task.items, block)
    end
  end
  table.insert(self.blocks, index, block)
  self.by_key[block.key] = block
  if self.view then
    self.view.inserted(block, index)
  end
  return block
end

---@param task roo.Task
---@return integer
function Request:place_of_header(task)
  return task.parent and self:index_of(last_block(task.parent)) + 1 or #self.blocks + 1
end

--- Gives a block its lines, with the empty one that sets it off.
---@param block roo.Block
---@param lines string[]
---@param groups? table<integer, string>
function Request:shape(block, lines, groups)
  if not block.gap then
    block.lines, block.groups = lines, groups
    return
  end
  block.lines = { '' }
  vim.list_extend(block.lines, lines)
  block.groups = groups and {}
  for index, group in pairs(groups or {}) do
    block.groups[index + 1] = group
  end
end

---@param block roo.Block
---@param lines string[]
---@param groups? table<integer, string>
function Request:replace(block, lines, groups)
  self:shape(block, lines, groups)
  if self.view then
    self.view.replaced(block)
  end
end

--- Writes on at the end of a block.
---@param block roo.Block
---@param text string
---@param group? string
function Request:append(block, text, group)
  local pieces = split(text)
  local last = #block.lines
  block.lines[last] = block.lines[last] .. pieces[1]
  for index = 2, #pieces do
    block.lines[last + index - 1] = pieces[index]
  end
  if group then
    for index = last, #block.lines do
      block.groups[index] = group
    end
  end
  if self.view then
    self.view.appended(block, pieces)
  end
end

---@param block roo.Block
function Request:remove(block)
  local index = self:index_of(block)
  table.remove(self.blocks, index)
  self.by_key[block.key] = nil
  for place, item in ipairs(block.task.items) do
    if item == block then
      table.remove(block.task.items, place)
      break
    end
  end
  if self.view then
    self.view.removed(block, index)
  end
end

--- One group for all lines.
---@param lines string[]
---@param group string
---@return table<integer, string>
local function all(lines, group)
  local groups = {}
  for index in ipairs(lines) do
    groups[index] = group
  end
  return groups
end

---@param task roo.Task
---@param key string
---@return roo.Block?
function Request:find(task, key)
  return self.by_key[task.id .. '/' .. key]
end

--- Puts a block there, or gives the one that is there other lines.
---@param task roo.Task
---@param kind string
---@param key string
---@param lines string[]
---@param settings? table
---@return roo.Block
function Request:put(task, kind, key, lines, settings)
  local block = self:find(task, key)
  if block then
    self:replace(block, lines, settings and settings.groups)
    return block
  end
  return self:insert(task, kind, key, lines, settings)
end

-- Branches ---------------------------------------------------------------------------------------------------------

---@param task roo.Task
function Request:show_header(task)
  local emoji = task.emoji ~= '' and task.emoji .. ' ' or ''
  local why = task.state ~= 'completed' and task.reason and ': ' .. first_line(task.reason) or ''
  local line = ('%s%s — %s, %s%s'):format(emoji, task.title, task.mode, task.state, why)
  if task.header and task.header.lines[#task.header.lines] == line then
    return
  end
  local groups = { highlight.of_state(task.state) }
  if task.header then
    self:replace(task.header, { line }, groups)
  else
    task.header = self:insert(task, 'header', 'header', { line }, { gap = task.parent ~= nil, groups = groups })
  end
end

local events = {}

events['task.created'] = function(self, id, event)
  local parent = event.parentId and self.tasks[event.parentId]
  local task = {
    id = id,
    request = self,
    parent = parent,
    depth = parent and parent.depth + 1 or 0,
    mode = event.mode,
    emoji = '',
    title = event.title,
    state = 'running',
    items = {},
  }
  self.tasks[id] = task
  if not parent then
    self.urid, self.title = event.urid, event.title
  end
  self:show_header(task)
  if parent then
    table.insert(parent.items, task)
  end
end

events['task.forked'] = function(self, _, event, task)
  self.urid, self.title, task.title = event.urid, event.title, event.title
  local line = ('⑂ forked from %s at event %d'):format(event.from.urid, event.from.seq)
  self:put(task, 'note', 'forked' .. self.seq, { line }, { groups = { 'RooUser' }, gap = true })
end

events['task.imported'] = function(self, _, event, task)
  local line = ('imported from %s, task %s'):format(event.from.program, event.from.taskId)
  self:put(task, 'note', 'imported' .. self.seq, { line }, { groups = { 'RooUser' }, gap = true })
end

events['tree.changed'] = function(self, _, event)
  self.nodes = event.nodes
  for _, node in ipairs(event.nodes) do
    local task = self.tasks[node.id]
    if task then
      task.emoji, task.title, task.state = node.emoji, node.title, node.state
      -- Why it stood still is no news once it goes on.
      if node.state ~= 'cancelled' and node.state ~= 'failed' then
        task.reason = nil
      end
      self:show_header(task)
    end
    if not node.parentId then
      self.state = node.state
    end
  end
end

events['task.state'] = function(self, id, event, task)
  local final = event.state == 'completed' or event.state == 'failed' or event.state == 'cancelled'
  task.state = event.state
  task.reason = (final or event.state == 'interrupted') and event.reason or nil
  self:show_header(task)
  if id == self.root then
    self.state = event.state
  end
end

events['mode.switched'] = function(self, _, event, task)
  task.mode = event.mode or task.mode
  self:show_header(task)
  local what = {}
  if event.mode then
    table.insert(what, 'in the mode ' .. event.mode)
  end
  if event.profile then
    table.insert(what, 'with the profile ' .. event.profile)
  end
  local line = '⇄ continues ' .. table.concat(what, ', ')
  self:insert(task, 'note', 'switched' .. self.seq, { line }, { groups = { 'RooQuiet' } })
end

-- Messages ---------------------------------------------------------------------------------------------------------

--- How a message is shown, by what it says.
local says = {
  text = { gap = true, markdown = true },
  reasoning = { gap = true, group = 'RooQuiet', first = 'thinking: ' },
  user_feedback = { gap = true, group = 'RooUser', first = '» ' },
  error = { gap = true, group = 'RooError', first = '✗ ' },
  completion_result = { gap = true, group = 'RooResult', first = '✔ ', markdown = true },
}

---@param request roo.Request
---@param task roo.Task
---@param id string
---@param say string
---@param text string
local function show_message(request, task, id, say, text)
  local style = says[say]
  local lines = split((text:gsub('%s+$', '')))
  local settings = { gap = style.gap, markdown = style.markdown, marker = style.first and #style.first }
  if say == 'text' and (id == 'm1' or id == 'brief') then
    settings.markdown = nil
    -- What the branch was told. The user's own words stay in sight; a brief is there for whoever looks.
    if id == 'brief' then
      lines[1] = 'brief: ' .. lines[1]
      settings.quiet = true
    else
      lines[1] = '» ' .. lines[1]
    end
    settings.groups = all(lines, id == 'brief' and 'RooQuiet' or 'RooPrompt')
  elseif style.first then
    lines[1] = style.first .. lines[1]
    settings.groups = all(lines, style.group)
    settings.quiet = say == 'reasoning' and #lines > 1
  end
  local block = request:find(task, id)
  if block and vim.deep_equal(lines, { unpack(block.lines, block.gap and 2 or 1) }) then
    block.length = nil
    return
  end
  request:put(task, say, id, lines, settings).length = nil
end

--- A model request failed: what came of it is void.
---@param request roo.Request
---@param task roo.Task
---@param number integer
local function void(request, task, number)
  local prefix = ('%s/r%d.'):format(task.id, number)
  for index = #request.blocks, 1, -1 do
    local block = request.blocks[index]
    if block and vim.startswith(block.key, prefix) then
      request:remove(block)
    end
  end
end

events.message = function(self, _, event, task)
  local message = event.message
  if message.say == 'api_req_started' then
    local ok, payload = pcall(vim.json.decode, message.text)
    if ok and payload.cancelReason then
      void(self, task, payload.request)
    end
  elseif message.say == 'tool' or message.ask then
    -- What was shown while it was being written; its start, or its question, is shown from now on.
    local block = self:find(task, message.id)
    if block then
      self:remove(block)
    end
  elseif says[message.say] then
    show_message(self, task, message.id, message.say, message.text)
  end
end

--- What a piece of a text adds to what has come of it: nothing where all of it is known, as after attaching again.
---@param event {offset: integer, text: string}
---@param length integer
---@return string? text
local function news(event, length)
  local text = event.text:sub(math.max(0, length - event.offset) + 1)
  return text ~= '' and text or nil
end

--- A call that is being written: its name and the beginning of its first parameter.
---@param request roo.Request
---@param task roo.Task
---@param event table
local function show_call(request, task, event)
  local block = request:find(task, event.id)
  local length = block and block.length or 0
  local text = news(event, length)
  -- Without its begin it has no name.
  if not text or not block and event.offset > 0 then
    return
  end
  local head, ends = block and block.head or '', block and block.ends or 0
  if ends < 2 then
    head = head .. text
  end
  ends = ends + select(2, text:gsub('\n', ''))
  local parts = split(head)
  local line = ('… %s %s'):format(parts[1], parts[2] or '')
  if ends > 2 then
    line = ('%s (%d lines)'):format(line, ends - 1)
  end
  block = request:put(task, 'call', event.id, { line }, { groups = { 'RooQuiet' } })
  block.head, block.ends, block.length = head, ends, math.max(length, event.offset) + #text
end

events['message.delta'] = function(self, _, event, task)
  if event.say == 'tool' then
    show_call(self, task, event)
    return
  end
  local style = says[event.say]
  if not style then
    return
  end
  local block = self:find(task, event.id)
  if not block then
    if event.offset > 0 then
      return
    end
    local lines = { style.first or '' }
    local settings = { gap = style.gap, markdown = style.markdown, marker = style.first and #style.first }
    block = self:insert(task, event.say, event.id, lines, settings)
    block.length = 0
  end
  -- A block that is closed already, or a piece that was left out for a slow client: the whole text comes.
  if not block.length or event.offset > block.length then
    return
  end
  local text = news(event, block.length)
  if text then
    block.length = block.length + #text
    self:append(block, text)
  end
end

-- Decisions --------------------------------------------------------------------------------------------------------

---@param approval roo.Approval
---@param id? string
local function option_of(approval, id)
  for _, option in ipairs(approval.options) do
    if option.id == id then
      return option
    end
  end
end

--- How many changes were accepted, edited and refused; nothing where they were answered as a whole.
---@param hunks? {decision: string}[]
---@return string?
local function by_change(hunks)
  local counts = { accept = 0, edit = 0, refuse = 0 }
  for _, hunk in ipairs(hunks or {}) do
    counts[hunk.decision] = counts[hunk.decision] + 1
  end
  local parts = {}
  for _, pair in ipairs({ { 'accept', 'accepted' }, { 'edit', 'edited' }, { 'refuse', 'refused' } }) do
    if counts[pair[1]] > 0 then
      table.insert(parts, ('%d %s'):format(counts[pair[1]], pair[2]))
    end
  end
  return #parts > 1 and table.concat(parts, ', ') or nil
end

--- Says what became of an approval, with the user's words on single changes.
---@param request roo.Request
---@param block roo.Block
---@param approval roo.Approval
---@param allowed boolean
---@param by string
---@param hunks? {decision: string, path: string, line: integer, text?: string}[]
local function show_decision(request, block, approval, allowed, by, hunks)
  local parts = by_change(hunks)
  local how = ('%s %s%s'):format(allowed and 'allowed' or 'refused', by, parts and ': ' .. parts or '')
  local lines = { ('%s %s — %s'):format(allowed and '✓' or '✗', approval.title, how) }
  local groups = { allowed and 'RooTool' or 'RooToolFailed' }
  for _, hunk in ipairs(hunks or {}) do
    if hunk.decision == 'refuse' and hunk.text and hunk.text ~= '' then
      table.insert(lines, ('  ✗ %s:%d — %s'):format(hunk.path, hunk.line, first_line(hunk.text)))
      groups[#lines] = 'RooToolFailed'
    elseif hunk.decision == 'edit' then
      table.insert(lines, ('  ✎ %s:%d — with your lines'):format(hunk.path, hunk.line))
      groups[#lines] = 'RooTool'
    end
  end
  request:replace(block, lines, groups)
end

-- Tools ------------------------------------------------------------------------------------------------------------

local marks = { ok = '✓', failed = '✗', denied = '✗', skipped = '–', interrupted = '–' }

--- How the end of a call or a command is shown: its mark, and a highlight group. A call whose command failed has done its
--- work, but not what was wanted of it.
---@param event { status: string, exitCode?: integer }
local function ending(event)
  if event.status == 'ok' and (event.exitCode or 0) ~= 0 then
    return '!', 'RooToolFailed'
  end
  return marks[event.status] or '–', event.status == 'ok' and 'RooTool' or 'RooToolFailed'
end

events['tool.started'] = function(self, _, event, task)
  local label = ('%s %s'):format(event.name, first_line(event.subject))
  self.calls[task.id .. '/' .. event.toolCallId] = { name = event.name, label = label }
  self:put(task, 'tool', event.toolCallId, { '▸ ' .. label }, { groups = { 'RooTool' } })
  -- A call that is run again after an interruption prints from the beginning.
  local output = self:find(task, event.toolCallId .. '.output')
  if output then
    self:remove(output)
  end
end

--- The end of an output that has become too long: from the beginning of a line if lines are short, and never from within a
--- character.
---@param text string
---@return string
local function end_of(text)
  local from = #text - OUTPUT / 2 + 1
  local line = text:find('\n', from, true)
  if line and line < #text - OUTPUT / 4 then
    return text:sub(line + 1)
  end
  while from <= #text and text:byte(from) >= 0x80 and text:byte(from) < 0xC0 do
    from = from + 1
  end
  return text:sub(from)
end

events['tool.output'] = function(self, _, event, task)
  local key = event.toolCallId .. '.output'
  local block = self:find(task, key)
  local tool = self:find(task, event.toolCallId)
  -- What is there as a whole is not changed by a piece that comes late.
  if not tool or block and not block.printed then
    return
  end
  local printed = block and block.printed or { length = 0, kept = 0, left_out = false, has_end = false }
  local text = news(event, printed.length)
  if not text then
    return
  end
  local has_gap = event.offset > printed.length
  printed.length = math.max(printed.length, event.offset) + #text
  -- The end of the last line is not shown, so that no empty line stands below it.
  text = (printed.has_end and '\n' or '') .. text
  printed.has_end = vim.endswith(text, '\n')
  text = printed.has_end and text:sub(1, -2) or text
  if block and not has_gap and printed.kept + #text <= OUTPUT then
    printed.kept = printed.kept + #text
    self:append(block, text, 'RooQuiet')
    return
  end
  text = (block and table.concat(block.lines, '\n', printed.left_out and 2 or 1) or '') .. text
  printed.left_out = printed.left_out or has_gap or #text > OUTPUT
  text = #text > OUTPUT and end_of(text) or text
  printed.kept = #text
  local lines = split(text)
  if printed.left_out then
    table.insert(lines, 1, LEFT_OUT)
  end
  if block then
    self:replace(block, lines, all(lines, 'RooQuiet'))
  else
    block = self:insert(task, 'output', key, lines, { groups = all(lines, 'RooQuiet'), after = tool })
    block.printed = printed
  end
end

events['gate.decided'] = function(self, _, event, task)
  -- What a standing rule has decided while it was asked: only now it is known how.
  local ruled = self.ruled[task.id .. '/' .. event.toolCallId]
  if ruled then
    self.ruled[task.id .. '/' .. event.toolCallId] = nil
    show_decision(self, ruled.block, ruled.approval, event.verdict == 'allow', 'by the standing ' .. ruled.by)
  end
  if event.verdict == 'deny' then
    self.calls[task.id .. '/' .. event.toolCallId] = { label = 'refused', reason = event.reason }
  end
end

events['tool.finished'] = function(self, _, event, task)
  local call = self.calls[task.id .. '/' .. event.toolCallId]
  -- Questions and ends have blocks of their own.
  if not call and event.status == 'ok' then
    return
  end
  local label = call and call.label or 'call'
  local mark, group = ending(event)
  local line = ('%s %s — %s'):format(mark, label, first_line(event.summary))
  self:put(task, 'tool', event.toolCallId, { line }, { groups = { group } })
end

events['command.backgrounded'] = function(self, _, event, task)
  self.commands[event.commandId] = event.command
  self.backgrounded[task.id .. '/' .. event.toolCallId] = true
  local line = ('▸ %s continues in the background: %s'):format(event.commandId, first_line(event.command))
  self:put(task, 'tool', event.commandId, { line }, { groups = { 'RooTool' } })
end

events['command.ended'] = function(self, _, event, task)
  self.commands[event.commandId] = nil
  local mark, group = ending(event)
  local line = ('%s %s — %s'):format(mark, event.commandId, first_line(event.summary))
  self:put(task, 'tool', event.commandId, { line }, { groups = { group } })
end

--- Shows what a command printed, from the task's snapshot: events tell it only while it runs.
---@param task roo.Task
---@param call_id string
---@param text string
function Request:show_output(task, call_id, text)
  local tool = self:find(task, call_id)
  if not tool then
    return
  end
  -- Directory and exit code stand in the tool's own line.
  local output = text:match('\nOutput:\n(.*)$') or text:match('^Output:\n(.*)$')
  local lines = output and split((output:gsub('\n$', ''))) or {}
  local block = self:find(task, call_id .. '.output')
  -- The result of its call has what it had printed by then; what is followed here is more.
  if block and block.printed and self.backgrounded[task.id .. '/' .. call_id] then
    return
  end
  if #lines == 0 then
    if block then
      self:remove(block)
    end
    return
  end
  local settings = { groups = all(lines, 'RooQuiet'), quiet = #lines > QUIET, after = tool }
  if block then
    self:remove(block)
  end
  self:insert(task, 'output', call_id .. '.output', lines, settings)
end

-- What waits -------------------------------------------------------------------------------------------------------

---@param list table[]
---@param field string
---@param id string
local function drop(list, field, id)
  for index, item in ipairs(list) do
    if item[field] == id then
      return table.remove(list, index)
    end
  end
end

events['approval.requested'] = function(self, _, event, task)
  local approval = vim.tbl_extend('error', event, { task = task })
  drop(self.approvals, 'approvalId', event.approvalId)
  table.insert(self.approvals, approval)
  local lines = { ('? %s — %s'):format(event.title, event.reason), '  to decide: <CR> here, or :Roo review' }
  local groups = { 'RooWaiting', 'RooQuiet' }
  local block = self:put(task, 'approval', event.approvalId, lines, { gap = true, groups = groups })
  block.approval = approval
  local subject = split((event.subject:gsub('\n$', '')))
  local colours = {}
  for index, line in ipairs(subject) do
    colours[index] = highlight.of_diff(line)
  end
  local detail = self:put(task, 'subject', event.approvalId .. '.subject', subject, { groups = colours, quiet = true })
  detail.approval = approval
  detail.open = true
end

events['approval.resolved'] = function(self, _, event, task)
  local approval = drop(self.approvals, 'approvalId', event.approvalId)
  local block = self:find(task, event.approvalId)
  approval = approval or block and block.approval
  if not block or not approval then
    return
  end
  local option = option_of(approval, event.optionId)
  if option then
    show_decision(self, block, approval, vim.startswith(option.kind, 'allow'), 'by ' .. event.by, event.hunks)
  elseif event.ruleId then
    approval.rule_id = event.ruleId
    self.ruled[task.id .. '/' .. approval.toolCallId] = { block = block, approval = approval, by = event.by }
    self:replace(block, { ('– %s — decided by the standing %s'):format(approval.title, event.by) }, { 'RooQuiet' })
  else
    self:replace(block, { ('– %s — no longer asked'):format(approval.title) }, { 'RooQuiet' })
  end
  local detail = self:find(task, event.approvalId .. '.subject')
  if detail then
    detail.open = false
    if self.view then
      self.view.folded(detail)
    end
  end
end

---@param request roo.Request
---@param block roo.Block
---@param question roo.Question
---@param waits boolean
local function show_question(request, block, question, waits)
  local lines = split(question.text)
  lines[1] = '? ' .. lines[1]
  local groups = all(lines, waits and 'RooWaiting' or 'RooQuiet')
  for number, suggestion in ipairs(question.suggestions) do
    local mode = suggestion.mode and (' (continues in the mode %s)'):format(suggestion.mode) or ''
    table.insert(lines, ('  %d. %s%s'):format(number, suggestion.text, mode))
  end
  if waits then
    table.insert(lines, '  to answer: <CR> here, or :Roo answer')
    groups[#lines] = 'RooQuiet'
  end
  request:replace(block, lines, groups)
end

events['question.asked'] = function(self, _, event, task)
  local question = vim.tbl_extend('error', event, { task = task })
  drop(self.questions, 'questionId', event.questionId)
  table.insert(self.questions, question)
  local block = self:find(task, event.questionId)
    or self:insert(task, 'question', event.questionId, {}, { gap = true })
  block.question = question
  show_question(self, block, question, true)
end

events['question.answered'] = function(self, _, event, task)
  local question = drop(self.questions, 'questionId', event.questionId)
  local block = self:find(task, event.questionId)
  if block and question then
    show_question(self, block, question, false)
  end
end

-- The rest ---------------------------------------------------------------------------------------------------------

local boxes = { pending = '[ ]', in_progress = '[-]', completed = '[x]' }

events['todo.changed'] = function(self, _, event, task)
  local lines = {}
  for _, item in ipairs(event.items) do
    table.insert(lines, ('%s %s'):format(boxes[item.status] or '[ ]', item.content))
  end
  self:put(task, 'todo', 'todo', lines, { gap = true })
end

events['queue.changed'] = function(self, _, event, task)
  local lines = {}
  for _, item in ipairs(event.items) do
    table.insert(lines, '… queued: ' .. first_line(item.text))
  end
  local block = self:find(task, 'queue')
  if block then
    self:remove(block)
  end
  if #lines > 0 then
    self:insert(task, 'queue', 'queue', lines, { groups = all(lines, 'RooQuiet') })
  end
end

events.usage = function(_, _, event, task)
  -- It tells what the task has used in all: the last request is what was added.
  local total = (event.tokensIn or 0) + (event.cacheReads or 0) + (event.cacheWrites or 0) + (event.tokensOut or 0)
  task.context = event.context and event.context.used or total - (task.tokens or 0)
  task.window = event.context and event.context.window
  task.tokens = total
end

-- The context ------------------------------------------------------------------------------------------------------

--- A number with separators.
---@param number integer
---@return string
local function grouped(number)
  local text = tostring(math.floor(number))
  return (text:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

--- Puts a line in the place of the word that the context is being shortened.
---@param request roo.Request
---@param task roo.Task
---@param line string
---@param group string
local function context_note(request, task, line, group)
  local running = request:find(task, 'shortening')
  if running then
    request:remove(running)
  end
  request:insert(task, 'note', 'context' .. request.seq, { line }, { groups = { group } })
end

local shortened_by = { placeholders = 'old results left out', summary = 'earlier turns summarized', outline = 'earlier turns listed' }

events['context.shortening'] = function(self, _, event, task)
  local how = event.method == 'summary' and ', a summary is being written' or ''
  self:put(task, 'note', 'shortening', { '… shortening the context' .. how }, { groups = { 'RooQuiet' } })
end

events['context.shortened'] = function(self, _, event, task)
  local how = shortened_by[event.method] or event.method
  local change = ('%s → %s tokens'):format(grouped(event.tokensBefore), grouped(event.tokensAfter))
  context_note(self, task, ('⇣ context shortened: %s, %s'):format(change, how), 'RooTool')
  if event.summary and event.summary:find('%S') then
    local lines = split((event.summary:gsub('%s+$', '')))
    self:insert(task, 'summary', 'summary' .. self.seq, lines, { groups = all(lines, 'RooQuiet'), quiet = true })
  end
  task.context = event.tokensAfter
end

events['context.kept'] = function(self, _, event, task)
  context_note(self, task, '– context not shortened: ' .. first_line(event.reason), 'RooQuiet')
end

events['context.restored'] = function(self, _, event, task)
  local change = ('%s → %s tokens'):format(grouped(event.tokensBefore), grouped(event.tokensAfter))
  context_note(self, task, '⇡ context restored: ' .. change, 'RooTool')
  task.context = event.tokensAfter
end

-- Checkpoints ------------------------------------------------------------------------------------------------------

local restored_what = { files = 'files', conversation = 'the conversation', both = 'files and the conversation' }

events['restore.started'] = function(self, _, event, task)
  local what = restored_what[event.what] or event.what
  local files = #event.files == 0 and '' or #event.files == 1 and ', 1 file' or (', %d files'):format(#event.files)
  local line = ('⟲ %s restores %s%s'):format(event.by, what, files)
  self:put(task, 'note', 'restore' .. self.seq, { line }, { groups = { 'RooUser' }, gap = true })
end

events['restore.finished'] = function(self, _, event, task)
  if not event.done then
    local line = '✗ nothing was restored: ' .. first_line(event.reason or '')
    self:insert(task, 'note', 'restored' .. self.seq, { line }, { groups = { 'RooError' } })
    return
  end
  self.restored = event.seq
  local seen = event.conversationBefore and '; the model no longer sees what was said since' or ''
  self:insert(task, 'note', 'restored' .. self.seq, { '✓ restored' .. seen }, { groups = { 'RooTool' } })
end

events['intent.selected'] = function(self, _, event, task)
  local line = ('◎ works on %s %s'):format(event.intentId, event.name)
  self:insert(task, 'note', 'intent' .. self.seq, { line }, { groups = { 'RooQuiet' } })
end

events['retry.scheduled'] = function(self, _, event, task)
  local time = os.date('%H:%M:%S', math.floor(event.at / 1000))
  local what = event.attempt > 1 and ('tries again at %s (attempt %d)'):format(time, event.attempt)
    or ('asks the model at %s'):format(time)
  local line = ('↻ %s: %s'):format(what, first_line(event.reason))
  self:insert(task, 'note', 'retry' .. self.seq, { line }, { groups = { 'RooQuiet' } })
end

--- Takes one event. Unknown types are ignored, and so are numbers that were seen already.
---@param params table The parameters of `roo/event`.
---@return 'applied'|'known'|'gap' outcome On a gap the caller attaches again.
function Request:apply(params)
  local event = params.event
  if params.seq then
    if params.seq <= self.seq then
      return 'known'
    end
    if (params.from or params.seq) > self.seq + 1 then
      return 'gap'
    end
    self.seq = params.seq
  end
  local task = self.tasks[params.taskId]
  local apply = events[event.type]
  if apply and (task or event.type == 'task.created' or event.type == 'tree.changed') then
    apply(self, params.taskId, event, task)
  end
  return 'applied'
end

--- Forgets what was being written when its server ended: nobody knows it any more.
function Request:forget_live()
  for index = #self.blocks, 1, -1 do
    local block = self.blocks[index]
    if block.length or block.kind == 'call' then
      self:remove(block)
    end
  end
end

--- The user's message that a block shows.
---@param block roo.Block
---@return {id: string, text: string}?
function Request:message_of(block)
  local id = block.key:sub(#block.task.id + 2)
  local lines = { unpack(block.lines, block.gap and 2 or 1) }
  local first = lines[1] and lines[1]:match('^» (.*)$')
  if first and (id == 'm1' or block.kind == 'user_feedback') then
    lines[1] = first
    return { id = id, text = table.concat(lines, '\n') }
  end
end

--- The standing rule that has decided an approval while it was asked.
---@param approval roo.Approval
---@return string? id
function Request:rule_of(approval)
  local block = self:find(approval.task, approval.approvalId)
  return block and block.approval and block.approval.rule_id
end

--- How many things wait for the user.
---@return integer
function Request:waiting()
  return #self.approvals + #self.questions
end

--- All lines, for a user who has no view.
---@return string[]
function Request:text()
  local lines = {}
  for _, block in ipairs(self.blocks) do
    for _, line in ipairs(block.lines) do
      table.insert(lines, line == '' and '' or ('  '):rep(block.task.depth) .. line)
    end
  end
  return lines
end

return Request
