-- What needs permission, one approval after the other: a float with the whole diff or command and a key for each
-- answer, both texts side by side, or the files themselves, change by change, all with the same keys. It is opened by
-- the user alone, and stays until the last approval is answered, so that no key that was meant for something else can
-- allow anything or reach a file.

local ask = require('roo.ask')
local change_actions = require('roo.change_actions')
local client = require('roo.client')
local highlight = require('roo.highlight')
local in_file = require('roo.in_file')
local review_float = require('roo.review_float')
local side_by_side = require('roo.side_by_side')

local M = {}

--- How long, in milliseconds, answers don't count after another approval has come by itself: a key that was pressed
--- twice, or too late, is none about what has just appeared.
local SETTLE = 500

---@alias roo.ReviewView 'diff'|'sides'|'file'

---@class roo.Review What is open.
---@field request roo.Request
---@field approval? roo.Approval What is shown; none when nothing is left.
---@field done table<string, true> The ids of what was answered here; their events may still be on the way.
---@field drafts table<string, table<string, roo.Decision>> Decisions on single changes, by approval and digest.
---@field origin integer The tab page in which it was opened.
---@field origin_window integer
---@field view roo.ReviewView How the user wants to see edits.
---@field float? roo.ReviewFloat
---@field opened? {module: table, state: table} What is open in place of the float.
---@field fetching? table The texts that are being fetched for another view.
---@field aside boolean Whether a float of the review's own is in front.
---@field unconfirm? fun() Closes the float that asks whether an answer is to count from now on.
---@field answering? string The id of what is being answered.
---@field at? string The digest of the change that was shown last in the file.
---@field settled integer When answers count again, by vim.uv.now().
---@type roo.Review?
local review

--- The key of each answer: the first of its kind, or the one of this id.
local keys = {
  { kind = 'allow_once', key = 'a' },
  { kind = 'allow_always', key = 'A' },
  { id = 'allow_commands', key = 'C' },
  { id = 'allow_everywhere', key = 'E' },
  { id = 'allow_preset', key = 'P' },
  { kind = 'reject_once', key = 'd' },
  { kind = 'reject_always', key = 'D' },
}

--- The option of this id, or the first of this kind.
---@param approval roo.Approval
---@param wanted {id?: string, kind?: string}
---@return {id: string, name: string, kind: string}?
local function option_of(approval, wanted)
  for _, option in ipairs(approval.options) do
    if option.id == wanted.id or option.kind == wanted.kind then
      return option
    end
  end
end

---@class roo.ResponseOptions
---@field text? string What the model is told with it.
---@field opened? boolean Whether the user has the whole subject before them.
---@field hunks? table[] Decisions on single changes; the others follow the option.

--- What came before an answer that is too late.
---@param result {by: string, settled?: {kind: string, ruleId?: string}}
---@param title string
---@return string
local function too_late(result, title)
  local settled = result.settled or {}
  if settled.kind == 'rule' then
    return ('the standing rule %s has decided this: %s'):format(settled.ruleId, title)
  elseif settled.kind == 'void' then
    return ('this is no longer asked: %s'):format(title)
  end
  return ('%s answered first: %s'):format(result.by, title)
end

--- Answers with the first option of a kind, or with the option of an id.
---@param approval roo.Approval
---@param wanted string|{id?: string, kind?: string} The kind, or one of them by name.
---@param options? roo.ResponseOptions
---@param on_done? fun(answered: boolean) Called once the server has answered.
function M.respond(approval, wanted, options, on_done)
  options = options or {}
  local done = on_done or function() end
  local option = option_of(approval, type(wanted) == 'string' and { kind = wanted } or wanted)
  if not option then
    client.notify(('this approval has no such option: %s'):format(approval.title), vim.log.levels.WARN)
    done(false)
    return
  end
  client.request_in(approval.task.request.folder, 'roo/approval/respond', {
    approvalId = approval.approvalId,
    digest = approval.digest,
    optionId = option.id,
    text = options.text,
    opened = options.opened,
    hunks = options.hunks,
  }, function(result)
    if not result.accepted then
      client.notify(too_late(result, approval.title))
    elseif result.interrupted then
      client.go_on(approval.task.request)
    end
    done(true)
  end, function(error)
    client.show_error(error)
    done(false)
  end)
end

--- Everything that waits, in the order in which every client shows it: the oldest request first, and within a request
--- as it was asked.
---@return {request: roo.Request, approval: roo.Approval}[]
local function queue()
  local waiting = {}
  local requests = require('roo.requests').all()
  for index = #requests, 1, -1 do
    for _, approval in ipairs(requests[index].approvals) do
      if not review.done[approval.approvalId] then
        table.insert(waiting, { request = requests[index], approval = approval })
      end
    end
  end
  return waiting
end

---@param waiting {request: roo.Request, approval: roo.Approval}[]
---@return integer? index Of what is shown.
local function index_in(waiting)
  for index, entry in ipairs(waiting) do
    if review.approval and entry.approval.approvalId == review.approval.approvalId then
      return index
    end
  end
end

---@return string
local function title()
  local waiting = queue()
  local index = index_in(waiting)
  local place = index and #waiting > 1 and (' (%d of %d)'):format(index, #waiting) or ''
  return ('%s%s'):format(review.approval.title, place)
end

--- Whether it is about the texts of files.
---@param approval roo.Approval
---@return boolean
local function is_edit(approval)
  return approval.subject:find('^%-%-%- ') ~= nil
end

--- What is shown now.
---@param this roo.Review
---@return roo.ReviewView
local function shown_view(this)
  return this.opened and (this.opened.module == in_file and 'file' or 'sides') or 'diff'
end

--- The keys of answers that count from now on.
---@param approval roo.Approval
---@return string[]
local function permanent(approval)
  local parts = {}
  for _, answer in ipairs(keys) do
    local option = option_of(approval, answer)
    if option and option.kind:find('_always$') then
      table.insert(parts, ('%s %s …'):format(answer.key, option.name))
    end
  end
  return parts
end

--- The keys that lead elsewhere.
---@param approval roo.Approval
---@return string[]
local function elsewhere(approval)
  local parts = {}
  local view = shown_view(review)
  if is_edit(approval) then
    table.insert(parts, view == 'sides' and 's as a diff' or 's side by side')
    table.insert(parts, view == 'file' and 'f as a diff' or 'f in the file')
  end
  if #queue() > 1 then
    table.insert(parts, '<Tab> next')
  end
  table.insert(parts, 'q later')
  return parts
end

---@param approval roo.Approval
---@return string[]
local function answers(approval)
  local parts = {}
  for _, kind in ipairs({ 'allow_once', 'reject_once' }) do
    local option = option_of(approval, { kind = kind })
    if option then
      table.insert(parts, ('%s %s'):format(kind == 'allow_once' and 'a' or 'd', option.name))
    end
  end
  table.insert(parts, 't refuse, with words')
  vim.list_extend(parts, permanent(approval))
  return vim.list_extend(parts, elsewhere(approval))
end

--- The keys in rows, none longer than the window: they stand above what may be longer than the screen, and not on
--- the border, which would cut them.
---@param parts string[]
---@param width integer
---@return string[]
local function in_rows(parts, width)
  local rows, row = {}, ''
  for _, part in ipairs(parts) do
    local longer = row == '' and part or row .. ' · ' .. part
    if vim.api.nvim_strwidth(longer) > width and row ~= '' then
      table.insert(rows, row)
      row = part
    else
      row = longer
    end
  end
  table.insert(rows, row)
  return rows
end

---@param approval roo.Approval
---@param width integer
---@return string[] lines
---@return table<integer, string> groups
local function contents(approval, width)
  local lines, groups = {}, {}
  local function add(line, group)
    table.insert(lines, line)
    groups[#lines] = group
  end
  add(('%s asks: %s'):format(approval.task.mode, (approval.reason:gsub('%s*\n%s*', ' '))), 'RooQuiet')
  for _, row in ipairs(in_rows(answers(approval), width)) do
    add(row, 'RooKey')
  end
  local decided = vim.tbl_count(review.drafts[approval.approvalId] or {})
  if decided > 0 then
    local what = decided == 1 and '1 change is decided' or ('%d changes are decided'):format(decided)
    add(('%s in the file; a and d answer the others'):format(what), 'RooWaiting')
  end
  add('')
  for _, line in ipairs(vim.split((approval.subject:gsub('\n$', '')), '\n', { plain = true })) do
    add(line, highlight.of_diff(line))
  end
  return lines, groups
end

--- Closes what is open in place of the float.
---@param this roo.Review
local function close_opened(this)
  local opened = this.opened
  this.opened = nil
  if opened then
    opened.module.close(opened.state, this.origin)
  end
end

--- Closes what is shown. What waits goes on waiting.
function M.close()
  local was = review
  review = nil
  if was then
    if was.unconfirm then
      was.unconfirm()
    end
    close_opened(was)
    review_float.close(was.float)
  end
end

--- Whether the user has it before them: a window that they have left must not come back by itself.
---@param this roo.Review
---@return boolean
local function is_in_front(this)
  if this.opened then
    return this.opened.module.is_in_front(this.opened.state)
  end
  -- Before the first texts have come there is no window yet.
  return vim.api.nvim_get_current_win() == (this.float and this.float.window or this.origin_window)
end

--- Whether an answer counts now.
---@return boolean
function M.is_settled()
  return review ~= nil
    and review.approval ~= nil
    and not review.answering
    and not review.fetching
    and vim.uv.now() >= review.settled
end

local show

--- Shows what comes next, if something waits, or else that nothing does, and closes.
---@param index integer Where in the queue what was shown had stood.
---@param said string What became of it.
local function advance(index, said)
  local this = review
  if not this or not is_in_front(this) then
    M.close()
    return
  end
  local waiting = queue()
  local following = waiting[index] or waiting[1]
  this.settled = vim.uv.now() + SETTLE
  if following then
    this.request, this.approval = following.request, following.approval
    show()
    return
  end
  this.approval = nil
  close_opened(this)
  show(said)
  -- A key that was pressed twice ends here and not in the window below.
  vim.defer_fn(function()
    if review == this and not this.approval then
      M.close()
    end
  end, SETTLE)
end

--- Answers what is shown, and goes on to the next.
---@param wanted {id?: string, kind?: string}
---@param options? roo.ResponseOptions
local function answer(wanted, options)
  local this = review
  if not this then
    return
  end
  local approval = this.approval
  local index = index_in(queue()) or 1
  local option = option_of(approval, wanted)
  this.answering = approval.approvalId
  this.done[approval.approvalId] = true
  options = vim.tbl_extend('force', { opened = true }, options or {})
  M.respond(approval, wanted, options, function(answered)
    if review ~= this then
      return
    end
    this.answering = nil
    if answered then
      this.drafts[approval.approvalId] = nil
      advance(index, ('%s: %s'):format(option and option.name or 'answered', approval.title))
    else
      -- It still waits, perhaps with another digest.
      this.done[approval.approvalId] = nil
      M.refresh()
    end
  end)
end

---@param this roo.Review
---@return table<string, roo.Decision>
local function drafts_of(this)
  local id = this.approval.approvalId
  this.drafts[id] = this.drafts[id] or {}
  return this.drafts[id]
end

--- The decisions on single changes, if each of them is about a change that the edit still has.
---@param files table[] As `roo/approval/preview` has them.
---@param drafts table<string, roo.Decision>
---@return table[]?
local function hunks_of(files, drafts)
  local hunks = {}
  for _, file in ipairs(files) do
    for _, hunk in ipairs(file.hunks or {}) do
      local draft = drafts[hunk.digest]
      if draft then
        table.insert(hunks, { hunkId = hunk.hunkId, digest = hunk.digest, decision = draft.decision, text = draft.text })
      end
    end
  end
  return #hunks == vim.tbl_count(drafts) and hunks or nil
end

--- Answers as a whole; what was decided on single changes stays so.
---@param kind 'allow_once'|'reject_once'
---@param text? string
local function answer_once(kind, text)
  local this = review
  local drafts = drafts_of(this)
  if not next(drafts) then
    answer({ kind = kind }, { text = text })
    return
  end
  local approval = this.approval
  this.answering = approval.approvalId
  local function take(hunks, problem)
    if review ~= this or this.approval ~= approval then
      return
    end
    this.answering = nil
    if hunks then
      answer({ kind = kind }, { text = text, hunks = hunks })
      return
    end
    -- An answer without them could allow what was refused.
    this.drafts[approval.approvalId] = nil
    client.notify('answer again, your decisions on single changes are gone: ' .. problem, vim.log.levels.WARN)
    show()
  end
  client.request_in(approval.task.request.folder, 'roo/approval/preview', { approvalId = approval.approvalId }, function(result)
    take(hunks_of(result.files, drafts), 'the edit has changed')
  end, function(error)
    take(nil, error.message)
  end)
end

--- Shows what an answer allows or refuses from now on, and gives it when the user agrees.
---@param wanted {id?: string, kind?: string}
---@param option {name: string, scope?: string}
local function confirm(wanted, option)
  local this = review
  local approval = this.approval
  local text = option.scope or option.name
  if next(drafts_of(this)) then
    text = text .. '\n\nIt answers the whole edit, with the changes that you have decided on.'
  end
  this.aside = true
  this.unconfirm = ask.confirm({
    title = option.name .. '?',
    text = text,
    yes = 'yes, from now on',
  }, function(agreed)
    this.aside, this.unconfirm = false, nil
    if agreed and review == this and this.approval == approval then
      answer(wanted)
    end
  end)
end

--- Asks for words, with what is shown out of the way for so long.
local function refuse_with_words()
  local this = review
  local request, approval = this.request, this.approval
  M.close()
  ask.input({ prompt = 'Why not, or what instead? ', draft = 'refuse ' .. approval.approvalId }, function(text)
    if not vim.list_contains(request.approvals, approval) then
      client.notify('this was decided elsewhere or is no longer open')
      return
    end
    local answered = text and text:find('%S')
    -- What is answered at once isn't shown in another view any more; what follows is.
    M.open(request, approval, { done = this.done, drafts = this.drafts, view = answered and 'diff' or this.view })
    review.view = this.view
    if answered then
      answer_once('reject_once', text)
    end
  end)
end

--- Goes on to another approval that waits.
---@param step 1|-1
local function move(step)
  local waiting = queue()
  local index = index_in(waiting)
  if index and #waiting > 1 then
    local other = waiting[(index - 1 + step) % #waiting + 1]
    review.request, review.approval = other.request, other.approval
    show()
  end
end

-- Change by change --------------------------------------------------------------------------------------------------

--- Sends the decisions once there is one on each change; goes to the next change before.
---@param this roo.Review
---@param state roo.InFile
local function send_or_go_on(this, state)
  local hunks = in_file.answers(state)
  if not hunks then
    this.settled = vim.uv.now() + SETTLE
    in_file.go(state, in_file.next(state, 1, true))
    return
  end
  in_file.draw(state)
  local function all(decision)
    return vim.iter(hunks):all(function(hunk)
      return hunk.decision == decision
    end)
  end
  if all('accept') then
    answer({ kind = 'allow_once' })
  else
    answer({ kind = all('refuse') and 'reject_once' or 'allow_once' }, { hunks = hunks })
  end
end

--- What the actions on changes need of the review.
---@param this roo.Review
---@return roo.ChangeHost
local function host_of(this)
  local approval, opened = this.approval, this.opened
  return {
    title = approval.title,
    state = opened.state,
    drafts = drafts_of(this),
    is_open = function()
      return review == this and this.approval == approval and this.opened == opened
    end,
    decided = function()
      send_or_go_on(this, opened.state)
    end,
  }
end

-- Keys --------------------------------------------------------------------------------------------------------------

--- Maps the keys of all answers: what doesn't apply does nothing, and reaches no command of the editor.
---@param buffer integer
---@param in_files? boolean Whether they are about single changes.
local function set_maps(buffer, in_files)
  local function map(key, description, action)
    vim.keymap.set('n', key, function()
      if M.is_settled() then
        action()
      end
    end, { buffer = buffer, nowait = true, desc = 'Roo: ' .. description })
  end
  for _, one in ipairs(keys) do
    map(one.key, (one.kind or one.id):gsub('_', ' '), function()
      local option = option_of(review.approval, one)
      if option and (option.scope or option.kind:find('_always$')) then
        confirm(one, option)
      elseif option then
        answer_once(option.kind)
      end
    end)
  end
  map('t', 'refuse, and say why', refuse_with_words)
  local function toggle(view)
    return function()
      review.view = shown_view(review) == view and 'diff' or view
      show()
    end
  end
  map('s', 'side by side, or as a diff', toggle('sides'))
  map('f', 'in the file, change by change, or as a diff', toggle('file'))
  map('<Tab>', 'the next that waits', function()
    move(1)
  end)
  map('<S-Tab>', 'the previous that waits', function()
    move(-1)
  end)
  if in_files then
    local function with_host(action)
      return function()
        if review.opened and review.opened.module == in_file then
          action(host_of(review))
        end
      end
    end
    for key, one in pairs(change_actions.by_key) do
      map(key, one.description, with_host(function(host)
        local change = in_file.aim(host.state)
        if change then
          one.run(host, change)
        end
      end))
    end
    for key, step in pairs({ [']c'] = 1, ['[c'] = -1 }) do
      map(key, step == 1 and 'next change' or 'previous change', with_host(function(host)
        in_file.go(host.state, in_file.next(host.state, step))
      end))
    end
    for key, decision in pairs({ ['<CR>'] = 'accept', ['<BS>'] = 'refuse' }) do
      map(key, decision .. ' the other changes', with_host(function(host)
        change_actions.decide_others(host, decision)
      end))
    end
  end
  for _, key in ipairs({ 'q', '<Esc>' }) do
    vim.keymap.set('n', key, M.close, { buffer = buffer, nowait = true, desc = 'Roo: decide later' })
  end
end

--- The keys that are mapped in the user's own files during a review.
---@return string[]
local function keys_in_files()
  local mapped = { 't', 'e', 'u', 's', 'f', '<Tab>', '<S-Tab>', ']c', '[c', '<CR>', '<BS>', 'q', '<Esc>' }
  for _, one in ipairs(keys) do
    table.insert(mapped, one.key)
  end
  return mapped
end

--- Shows lines in the float.
---@param this roo.Review
---@param heading string
---@param lines string[]
---@param groups table<integer, string>
local function draw_float(this, heading, lines, groups)
  this.float = review_float.show(this.float, heading, lines, groups, function(buffer)
    set_maps(buffer)
    vim.api.nvim_create_autocmd('WinLeave', {
      buffer = buffer,
      callback = function()
        if review == this and not this.opened and not this.aside then
          M.close()
        end
      end,
    })
  end)
end

--- Opens the texts of an edit in place of the float.
---@param this roo.Review
---@param files table[]
---@return {module: table, state: table}?
local function open_view(this, files)
  if this.view == 'sides' then
    local state = side_by_side.open(this.approval, files, function(width)
      local lines = { title() }
      vim.list_extend(lines, in_rows(answers(this.approval), width))
      return { lines = lines, map = set_maps }
    end)
    return { module = side_by_side, state = state }
  end
  local drafts = drafts_of(this)
  local state
  state = in_file.open(files, {
    window = this.origin_window,
    drafts = drafts,
    at = this.at,
    keys = keys_in_files(),
    map = function(buffer)
      set_maps(buffer, true)
    end,
    heading = title,
    rows = function(width, change, opened)
      local parts = change_actions.keys(opened, change)
      vim.list_extend(parts, permanent(this.approval))
      return in_rows(vim.list_extend(parts, elsewhere(this.approval)), width)
    end,
    changed = function()
      local is_shown = review == this and this.approval and this.opened and this.opened.state == state
      if is_shown and not this.answering then
        this.at = state.current.hunk.digest
        show()
      end
    end,
    gone = function()
      if review == this and this.opened and this.opened.state == state then
        M.close()
      end
    end,
  })
  return state and { module = in_file, state = state }
end

--- Shows the texts in place of the float; the float again when there are none.
---@param this roo.Review
---@param on_none fun()
local function show_texts(this, on_none)
  local approval, view = this.approval, this.view
  local fetched = {}
  this.fetching = fetched
  if this.opened and this.opened.module == in_file and this.opened.approval ~= approval then
    in_file.clear(this.opened.state)
  end
  local function take(files)
    if review ~= this or this.fetching ~= fetched then
      return
    end
    this.fetching = nil
    if not is_in_front(this) then
      M.close()
      return
    end
    -- In one go, so that no key gets in between.
    this.aside = true
    close_opened(this)
    if files then
      -- Where keys are shown depends on what is open.
      this.opened = { module = view == 'sides' and side_by_side or in_file, approval = approval }
      local opened = open_view(this, files)
      this.opened = opened
      if opened then
        opened.approval = approval
          review_float.close(this.float)
      end
    end
    this.aside = false
    if not this.opened then
      this.view = 'diff'
      on_none()
    end
  end
  client.request_in(approval.task.request.folder, 'roo/approval/preview', { approvalId = approval.approvalId }, function(result)
    if #result.files == 0 then
      client.notify('this approval is not about files')
    end
    take(#result.files > 0 and result.files or nil)
  end, function(error)
    -- What was asked about is another text by now; to answer it leads to another question.
    client.notify(("can't show the texts: %s"):format(error.message), vim.log.levels.WARN)
    take(nil)
  end)
end

--- Shows the approval, or what became of the last one when nothing is left.
---@param said? string
show = function(said)
  local this = review
  this.fetching = nil
  if not this.approval then
    draw_float(this, 'Nothing else waits', { said or '' }, { 'RooQuiet' })
    return
  end
  local function as_diff()
    close_opened(this)
    local lines, groups = contents(this.approval, review_float.width())
    draw_float(this, title(), lines, groups)
  end
  if this.view ~= 'diff' and is_edit(this.approval) then
    show_texts(this, as_diff)
  else
    as_diff()
  end
end

--- Opens the review at one approval.
---@param request roo.Request
---@param approval roo.Approval
---@param before? {done: table<string, true>, drafts: table, view: roo.ReviewView} A review that was interrupted.
function M.open(request, approval, before)
  M.close()
  review = {
    request = request,
    approval = approval,
    done = before and before.done or {},
    drafts = before and before.drafts or {},
    origin = vim.api.nvim_get_current_tabpage(),
    origin_window = vim.api.nvim_get_current_win(),
    view = before and before.view or require('roo.options').get().review,
    aside = false,
    settled = 0,
  }
  show()
end

--- Goes on when what is shown was answered elsewhere, and counts again what waits.
function M.refresh()
  local this = review
  if not this or not this.approval or this.answering == this.approval.approvalId then
    return
  end
  local waiting = queue()
  for _, entry in ipairs(waiting) do
    if entry.approval.approvalId == this.approval.approvalId then
      if entry.approval.digest ~= this.approval.digest then
        -- The same question about another text: nothing that was seen counts for it.
        if this.unconfirm then
          this.unconfirm()
        end
        this.approval, this.settled = entry.approval, vim.uv.now() + SETTLE
        show()
      elseif this.opened then
        this.opened.module.retitle(this.opened.state, title())
      elseif review_float.is_open(this.float) then
        review_float.retitle(this.float, title())
      end
      return
    end
  end
  if this.unconfirm then
    this.unconfirm()
  end
  local rule = this.request:rule_of(this.approval)
  client.notify(rule and ('the standing rule %s has decided this: %s'):format(rule, this.approval.title)
    or 'this was decided elsewhere or is no longer open')
  advance(1, this.approval.title)
end

return M
