-- What the keys of the review do to single changes of an edit that is shown in its files.

local ask = require('roo.ask')
local client = require('roo.client')
local in_file = require('roo.in_file')

local M = {}

---@class roo.ChangeHost The review, as far as changes need it.
---@field title string Of the approval.
---@field state roo.InFile
---@field drafts table<string, roo.Decision>
---@field is_open fun(): boolean Whether the same approval is still shown in the same view.
---@field decided fun() Called after a decision.

---@param host roo.ChangeHost
---@param change roo.Change
---@param decision roo.Decision
local function decide(host, change, decision)
  host.drafts[change.hunk.digest] = decision
  host.decided()
end

--- Decides on all changes on which nothing is decided yet.
---@param host roo.ChangeHost
---@param decision 'accept'|'refuse'
function M.decide_others(host, decision)
  for _, change in ipairs(host.state.changes) do
    host.drafts[change.hunk.digest] = host.drafts[change.hunk.digest] or { decision = decision }
  end
  host.decided()
end

--- What to do with the user's text, if it is still about what is shown. Without a text nothing is done.
---@param host roo.ChangeHost
---@param on_text fun(text: string)
---@return fun(text?: string)
local function if_open(host, on_text)
  return function(text)
    if text ~= nil and not host.is_open() then
      client.notify('this was decided elsewhere or is no longer open')
    elseif text ~= nil then
      on_text(text)
    end
  end
end

---@param host roo.ChangeHost
---@param change roo.Change
local function refuse_with_words(host, change)
  ask.input(
    { prompt = 'Why not, or what instead? ', draft = 'refuse change ' .. change.hunk.digest },
    if_open(host, function(text)
      if text:find('%S') then
        decide(host, change, { decision = 'refuse', text = text })
      end
    end)
  )
end

---@param change roo.Change
---@return boolean
local function has_lines(change)
  return change.hunk.kind == 'edit' or change.hunk.kind == 'create'
end

---@param host roo.ChangeHost
---@param change roo.Change
local function edit(host, change)
  local hunk, draft = change.hunk, host.drafts[change.hunk.digest]
  if not has_lines(change) then
    client.notify('a file that is deleted or moved has no lines to edit')
    return
  end
  local proposed = in_file.lines_of(hunk.newText)
  local is_edited = draft and draft.decision == 'edit'
  ask.edit(
    {
      title = ('%s, change %d'):format(host.title, change.number),
      lines = is_edited and in_file.lines_of(draft.text) or proposed,
      filetype = vim.bo[change.buffer].filetype,
    },
    if_open(host, function(text)
      if text == table.concat(proposed, '\n') then
        decide(host, change, { decision = 'accept' })
        return
      end
      -- A file that has no end of its last line keeps that.
      local ends = hunk.newText == '' or vim.endswith(hunk.newText, '\n')
      decide(host, change, { decision = 'edit', text = text == '' and '' or text .. (ends and '\n' or '') })
    end)
  )
end

---@type table<string, {description: string, run: fun(host: roo.ChangeHost, change: roo.Change)}>
M.by_key = {
  a = {
    description = 'accept this change',
    run = function(host, change)
      decide(host, change, { decision = 'accept' })
    end,
  },
  d = {
    description = 'refuse this change',
    run = function(host, change)
      decide(host, change, { decision = 'refuse' })
    end,
  },
  t = { description = 'refuse this change, and say why', run = refuse_with_words },
  e = { description = 'edit this change', run = edit },
  u = {
    description = 'undo the decision on this change',
    run = function(host, change)
      host.drafts[change.hunk.digest] = nil
      in_file.draw(host.state)
    end,
  },
}

--- The keys that do something about a change, each with what it does.
---@param state roo.InFile
---@param change roo.Change
---@return string[]
function M.keys(state, change)
  local parts = {}
  if state.context.drafts[change.hunk.digest] then
    table.insert(parts, 'u undecided again')
  end
  vim.list_extend(parts, { 'a accept', 'd refuse', 't refuse, with words' })
  if has_lines(change) then
    table.insert(parts, 'e edit first')
  end
  if #state.changes > 1 then
    vim.list_extend(parts, { '<CR> accept the others', '<BS> refuse the others', ']c [c next, previous' })
  end
  return parts
end

return M
