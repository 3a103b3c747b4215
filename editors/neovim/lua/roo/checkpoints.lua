-- States of a request's files and conversation to go back to: chosen from a list, shown as a diff, and restored when
-- the user says so.

local ask = require('roo.ask')
local client = require('roo.client')
local highlight = require('roo.highlight')
local review_float = require('roo.review_float')

local M = {}

local choices = {
  { what = 'files', label = 'The files; the conversation goes on as it is' },
  { what = 'conversation', label = 'The conversation; the files stay as they are' },
  { what = 'both', label = 'The files and the conversation' },
}

---@param count integer
---@param one string
---@param many string
---@return string
local function counted(count, one, many)
  return count == 1 and one or many:format(count)
end

--- What a restore would do, as lines with their groups.
---@param result table As `roo/checkpoint/restore` answers.
---@return string[] lines
---@return table<integer, string> groups
function M.describe(result)
  local lines, groups = {}, {}
  local function add(line, group)
    table.insert(lines, line)
    groups[#lines] = group
  end
  local keys = 'y restore · q back'
  if #result.conflicts > 0 then
    keys = 'y restore, but for these files · m restore, with conflict markers · q back'
    for _, conflict in ipairs(result.conflicts) do
      local how = conflict.marked and 'gets conflict markers' or 'stays as it is'
      add(('%s %s: %s'):format(conflict.path, how, conflict.reason), 'RooWaiting')
    end
  end
  for _, file in ipairs(result.leftOut) do
    add(("%s can't be restored: %s"):format(file.path, file.reason), 'RooWaiting')
  end
  if result.conversation then
    local dropped = result.conversation.dropped
    local what = counted(dropped, '1 message or result', '%d messages and results')
    add(('the model no longer sees %s'):format(what), 'RooQuiet')
  end
  for _, branch in ipairs(result.endedBranches or {}) do
    local stays = branch.worktree and ('; what it has not merged stays in %s'):format(branch.worktree) or ''
    add(('the branch "%s" ends%s'):format(branch.title, stays), 'RooWaiting')
  end
  if #result.files == 0 then
    add('no file changes', 'RooQuiet')
  end
  table.insert(lines, 1, keys)
  groups = vim.iter(pairs(groups)):fold({ 'RooKey' }, function(all, index, group)
    all[index + 1] = group
    return all
  end)
  add('')
  for _, file in ipairs(result.files) do
    for _, line in ipairs(vim.split((file.diff:gsub('\n$', '')), '\n', { plain = true })) do
      add(line, highlight.of_diff(line))
    end
  end
  return lines, groups
end

local RESTORE, EDIT = 'roo/checkpoint/restore', 'roo/task/edit'

--- Where the work of branches is that ended with a restore and was not merged, to be said behind what was done.
---@param result table
---@return string
local function kept_worktrees(result)
  local kept = {}
  for _, branch in ipairs(result.endedBranches or {}) do
    if branch.worktree then
      table.insert(kept, ('; what the branch "%s" has not merged is in %s'):format(branch.title, branch.worktree))
    end
  end
  return table.concat(kept)
end

--- Shows what a request of the server would restore, with a key to do it.
---@param request roo.Request
---@param method string
---@param params table
---@param heading string
---@param on_done fun(result: table)
local function preview(request, method, params, heading, on_done)
  client.request_in(request.folder, method, vim.tbl_extend('force', params, { preview = true }), function(result)
    local lines, groups = M.describe(result)
    local float
    float = review_float.show(nil, heading, lines, groups, function(buffer)
      local function map(key, description, action)
        vim.keymap.set('n', key, function()
          review_float.close(float)
          action()
        end, { buffer = buffer, nowait = true, desc = 'Roo: ' .. description })
      end
      map('y', 'restore', function()
        client.request_in(request.folder, method, vim.tbl_extend('force', params, { digest = result.digest }), on_done)
      end)
      if #result.conflicts > 0 then
        map('m', 'restore, with conflict markers', function()
          preview(request, method, vim.tbl_extend('force', params, { conflicts = 'mark' }), heading, on_done)
        end)
      end
      for _, key in ipairs({ 'q', '<Esc>' }) do
        map(key, 'back', function() end)
      end
      vim.api.nvim_create_autocmd('WinLeave', {
        buffer = buffer,
        once = true,
        callback = function()
          review_float.close(float)
        end,
      })
    end)
  end)
end

--- Lets the user choose what is restored.
---@param request roo.Request
---@param seq integer
---@param heading string
local function choose_what(request, seq, heading)
  ask.select(choices, {
    prompt = heading .. ': what?',
    kind = 'roo_restore',
    format_item = function(choice)
      return choice.label
    end,
  }, function(choice)
    if not choice then
      return
    end
    local params = { taskId = request.root, seq = seq, what = choice.what, scope = 'request' }
    preview(request, RESTORE, params, heading, function(result)
      local what = choice.what == 'conversation' and 'the conversation' or counted(#result.files, '1 file', '%d files')
      local told = 'restored %s; the first entry of :Roo checkpoints undoes it%s'
      client.notify(told:format(what, kept_worktrees(result)))
    end)
  end)
end

--- Lets the user choose a state to go back to; the newest first, and before them what undoes the last restore.
---@param request roo.Request
function M.show(request)
  client.request_in(request.folder, 'roo/checkpoint/list', { taskId = request.root }, function(result)
    local items = {}
    if request.restored then
      table.insert(items, { seq = request.restored, label = 'Undo the last restore' })
    end
    for index = #result.checkpoints, 1, -1 do
      local one = result.checkpoints[index]
      local at = os.date('%Y-%m-%d %H:%M:%S', math.floor(one.at / 1000))
      local files = counted(#one.files, '1 file', '%d files')
      table.insert(items, { seq = one.seq, label = ('Before %s, %s (%s)'):format(one.summary, at, files) })
    end
    if #items == 0 then
      client.notify(result.notice or 'this task has changed no files, so there is nothing to go back to')
      return
    end
    if result.notice then
      client.notify(result.notice)
    end
    ask.select(items, {
      prompt = 'Checkpoints',
      kind = 'roo_checkpoint',
      format_item = function(item)
        return item.label
      end,
    }, function(item)
      if item then
        choose_what(request, item.seq, item.label)
      end
    end)
  end)
end

--- Lets the user rewrite one of their messages; the conversation goes on from there.
---@param request roo.Request
---@param message {id: string, text: string}
function M.edit(request, message)
  local heading = 'Go on from the changed message'
  local function choose(text)
    ask.select({ { files = false, label = 'The files stay as they are' }, { files = true, label = 'The files go back too' } }, {
      prompt = heading,
      kind = 'roo_restore',
      format_item = function(choice)
        return choice.label
      end,
    }, function(choice)
      if choice then
        local params = { taskId = request.root, messageId = message.id, text = text, files = choice.files }
        preview(request, EDIT, params, heading, function(result)
          client.notify('the task goes on from the changed message' .. kept_worktrees(result))
        end)
      end
    end)
  end
  ask.input({ prompt = 'Your message:', default = message.text, draft = ('edit %s %s'):format(request.root, message.id) }, function(text)
    if text and text:find('%S') and text ~= message.text then
      choose(text)
    end
  end)
end

return M
