-- What a request has changed, as a quickfix list, and undoing parts of it. The log has each change with its lines; what
-- it does not record, such as very large files, is known by the records of the trace.

local client = require('roo.client')

local M = {}

local OWN = 'dev.roo-lsp'
local LIMIT = 1000
local TITLE = 'Roo: changes of '

local did = { create = 'created', delete = 'deleted', move = 'moved', edit = 'changed' }

---@param text string
---@return integer
local function count_lines(text)
  local _, ends = text:gsub('\n', '')
  return vim.endswith(text, '\n') and ends or ends + 1
end

--- The entry of one change.
---@param filename string
---@param change table As `roo/changes/list` has it.
---@param request roo.Request
---@return vim.quickfix.entry
local function entry(filename, change, request)
  local task = request.tasks[change.taskId]
  local what = did[change.kind] or 'changed'
  local by = ('%s, %s'):format(task and task.mode or '', change.tool)
  local text = change.byUser and ('%s with your lines (%s)'):format(what, by) or ('%s (%s)'):format(what, by)
  local data = { root = request.root, change = change.changeId }
  if change.kind == 'delete' then
    return { filename = filename, valid = 0, text = text, user_data = data }
  end
  local last = change.line + math.max(count_lines(change.newText), 1) - 1
  return { filename = filename, lnum = change.line, end_lnum = last, col = 1, text = text, user_data = data }
end

--- The entries of the list, by file and line.
---@param request roo.Request
---@param files table[] As `roo/changes/list` has them.
---@param records table[] Of the trace, oldest first.
---@param root string The directory that the paths of the trace begin at.
---@return vim.quickfix.entry[]
function M.entries(request, files, records, root)
  local entries, recorded = {}, {}
  for _, file in ipairs(files) do
    local filename = vim.uri_to_fname(file.uri)
    recorded[filename] = true
    -- What has no line was undone or changed again since.
    local own = vim.tbl_filter(function(change)
      return change.line ~= nil
    end, file.changes)
    table.sort(own, function(a, b)
      return a.line < b.line
    end)
    for _, change in ipairs(own) do
      table.insert(entries, entry(filename, change, request))
    end
  end
  local others = {}
  for _, record in ipairs(records) do
    local about = record.metadata and record.metadata[OWN] or {}
    -- What a command was not allowed to change was undone.
    if about.outcome == 'ok' or about.outcome == 'interrupted' then
      for _, file in ipairs(record.files) do
        local filename = vim.fs.joinpath(root, file.path)
        if not recorded[filename] then
          local what = about.after == 'absent' and 'deleted' or 'changed'
          others[filename] = ('%s (%s, %s)'):format(what, about.mode or '', about.tool_call or '')
        end
      end
    end
  end
  for filename, text in vim.spairs(others) do
    table.insert(entries, { filename = filename, valid = 0, text = text .. ', not recorded line by line' })
  end
  return entries
end

--- Calls back with the entries of a request.
---@param request roo.Request
---@param on_entries fun(entries: vim.quickfix.entry[])
local function fetch(request, on_entries)
  client.request_in(request.folder, 'roo/changes/list', { taskId = request.root }, function(changes)
    client.request_in(request.folder, 'roo/trace/query', { taskId = request.root, limit = LIMIT }, function(trace)
      on_entries(M.entries(request, changes.files, trace.records, request.folder or vim.fn.getcwd()))
    end)
  end)
end

--- Fills the quickfix list with what a request has changed, and opens it.
---@param request roo.Request
function M.show(request)
  fetch(request, function(entries)
    if #entries == 0 then
      client.notify('this task has changed no files')
      return
    end
    vim.fn.setqflist({}, ' ', { title = TITLE .. request.title, items = entries })
    vim.cmd('botright copen')
  end)
end

--- Fills the quickfix list again, if it shows these changes.
---@param request roo.Request
local function refresh(request)
  local list = vim.fn.getqflist({ id = 0, title = 0, idx = 0 })
  if list.title ~= TITLE .. request.title then
    return
  end
  fetch(request, function(entries)
    vim.fn.setqflist({}, 'r', { id = list.id, title = list.title, items = entries, idx = math.min(list.idx, #entries) })
  end)
end

--- The changes in lines of the quickfix list, by request.
---@param first integer
---@param last integer
---@return table<string, string[]>
local function in_list(first, last)
  local found = {}
  for index, item in ipairs(vim.fn.getqflist()) do
    local data = item.user_data
    if index >= first and index <= last and type(data) == 'table' and data.change then
      found[data.root] = found[data.root] or {}
      table.insert(found[data.root], data.change)
    end
  end
  return found
end

--- Undoes changes, and says what became of them.
---@param request roo.Request
---@param ids string[]
local function undo(request, ids)
  client.request_in(request.folder, 'roo/changes/undo', { taskId = request.root, changeIds = ids }, function(result)
    local undone, conflict = #result.undone, result.conflicts[1]
    local said = undone == 1 and '1 change undone' or ('%d changes undone'):format(undone)
    if conflict then
      said = ('%s, %d not: %s'):format(said, #result.conflicts, conflict.reason)
    end
    client.notify(said, conflict and vim.log.levels.WARN or nil)
    require('roo.documents').reload()
    refresh(request)
  end)
end

--- Undoes what requests have changed in these lines: of a file, or of the quickfix list.
---@param first integer
---@param last integer
function M.undo(first, last)
  local requests = require('roo.requests')
  local function nothing()
    client.notify('no task has changed these lines, or it is not open; see :Roo tasks', vim.log.levels.WARN)
  end
  if vim.bo.buftype == 'quickfix' then
    local found = in_list(first, last)
    for root, ids in pairs(found) do
      undo(requests.know(root), ids)
    end
    if not next(found) then
      nothing()
    end
    return
  end
  local name = vim.api.nvim_buf_get_name(0)
  local all = requests.all()
  --- The newest request that has changed these lines is meant.
  local function look(index)
    local request = all[index]
    if not request then
      nothing()
      return
    end
    client.request_in(request.folder, 'roo/changes/list', { taskId = request.root }, function(result)
      local ids = {}
      for _, file in ipairs(result.files) do
        for _, change in ipairs(vim.fs.normalize(vim.uri_to_fname(file.uri)) == vim.fs.normalize(name) and file.changes or {}) do
          local line = change.line
          if line and line <= last and line + math.max(count_lines(change.newText), 1) - 1 >= first then
            table.insert(ids, change.changeId)
          end
        end
      end
      if #ids > 0 then
        undo(request, ids)
      else
        look(index + 1)
      end
    end)
  end
  look(1)
end

return M
