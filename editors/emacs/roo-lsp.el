;;; roo-lsp.el --- Coding agents by roo-lsp and eglot  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0
;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; Keywords: tools

;;; Commentary:

;; roo-lsp is a language server that runs coding agents.  It needs nothing but
;; eglot; this file adds commands to type, shows the documents that the server
;; wants shown, and keeps its questions from opening on top of each other.
;;
;;     (require 'roo-lsp)
;;     (roo-lsp-setup 'sh-mode 'text-mode)
;;     (add-hook 'sh-mode-hook #'eglot-ensure)
;;
;; See docs/src/editors/emacs.md.

;;; Code:

(require 'eglot)
(require 'seq)
(require 'url-parse)
(require 'url-util)

(defgroup roo-lsp nil
  "Coding agents by roo-lsp."
  :group 'tools)

(defcustom roo-lsp-command '("roo-lsp")
  "The server's program and its arguments."
  :type '(repeat string))

(defclass roo-lsp-server (eglot-lsp-server) ()
  :documentation "A connection to roo-lsp.")

(defun roo-lsp-setup (&rest modes)
  "Have eglot start roo-lsp for the major MODES.
eglot runs one server for each major mode: a mode that is named here has
no other one."
  (add-to-list 'eglot-server-programs (cons modes (cons 'roo-lsp-server roo-lsp-command))))

;; The server asks before it edits: eglot needn't ask again.  The second name is that of eglot 1.16 and newer.
(defvar eglot-confirm-server-initiated-edits)
(defvar eglot-confirm-server-edits)
(cl-defmethod eglot-handle-request :around
  ((_server roo-lsp-server) (_method (eql workspace/applyEdit)) &rest _)
  "Apply an edit that the user has allowed already, without a message.
The task document is edited all the time, and each message would hide what
the server says."
  (let ((eglot-confirm-server-initiated-edits nil)
        (eglot-confirm-server-edits nil)
        (inhibit-message t))
    (cl-call-next-method)))

;;; Documents that the server shows

(cl-defmethod eglot-client-capabilities ((_server roo-lsp-server))
  "Add that documents can be shown, which eglot 1.9 leaves out."
  (let ((all (cl-call-next-method)))
    (plist-put all :window (plist-put (plist-get all :window) :showDocument '(:support t)))))

(cl-defmethod eglot-handle-request
  ((_server roo-lsp-server) (_method (eql window/showDocument)) &key uri takeFocus &allow-other-keys)
  "Show the document at URI, and go there if TAKEFOCUS is true."
  (let ((file (decode-coding-string
               (url-unhex-string (url-filename (url-generic-parse-url uri))) 'utf-8)))
    (roo-lsp--show file (eq takeFocus t))
    '(:success t)))

(defun roo-lsp--show (file focus)
  "Show FILE, which the server keeps writing; go there if FOCUS.
Never away from the minibuffer."
  ;; eglot manages what is opened while it serves a request, so that the server
  ;; writes to the buffer, and offers code actions and completion there.
  (let ((buffer (find-file-noselect file t)))
    (with-current-buffer buffer
      (unless (string-suffix-p ".md" file)
        (view-mode 1)))
    (if (and focus (not (active-minibuffer-window)))
        (pop-to-buffer buffer)
      (let ((window (display-buffer buffer)))
        (when window
          (with-current-buffer buffer
            (set-window-point window (point-max))))))))

;;; Questions

(defvar roo-lsp--put-off nil
  "Whether a question came while the minibuffer was in use.")

(cl-defmethod eglot-handle-request
  ((_server roo-lsp-server) (_method (eql window/showMessageRequest)) &key message actions &allow-other-keys)
  "Ask MESSAGE with the choices ACTIONS, unless the minibuffer is in use.
What is typed there is no answer to it.  Without an answer the task goes
on waiting."
  (if (active-minibuffer-window)
      (progn (setq roo-lsp--put-off t) nil)
    ;; eglot's own puts the first choice before what is typed.
    (let* ((titles (mapcar (lambda (action) (plist-get action :title)) actions))
           (prompt (format "%s\nChoose (default %s): " message (car titles)))
           (choice (condition-case nil
                       (completing-read prompt titles nil t nil nil (car titles))
                     (quit nil))))
      (and choice (list :title choice)))))

(defun roo-lsp--tell-put-off ()
  "Say what waits, once the minibuffer is free again."
  (when roo-lsp--put-off
    (setq roo-lsp--put-off nil)
    (run-with-timer 0 nil #'roo-lsp-status)))

(add-hook 'minibuffer-exit-hook #'roo-lsp--tell-put-off)

;;; Commands

(defun roo-lsp--server ()
  "The connection of this buffer, or else the one that there is."
  (let ((here (eglot-current-server)))
    (if (roo-lsp-server-p here)
        here
      (or (seq-find #'roo-lsp-server-p (apply #'append (hash-table-values eglot--servers-by-project)))
          (user-error "Start roo-lsp by M-x eglot in a file of one of its major modes")))))

(defun roo-lsp--execute (command &rest argument)
  "Run COMMAND of the server with the object ARGUMENT, a property list."
  (jsonrpc-async-request
   (roo-lsp--server) :workspace/executeCommand
   `(:command ,command :arguments ,(if argument (vector argument) []))
   ;; The server says by messages what came of it, errors too.
   :success-fn #'ignore :error-fn #'ignore :timeout-fn #'ignore))

(defun roo-lsp--context ()
  "The selected lines of this file as context of a task."
  (when (and (use-region-p) buffer-file-name)
    (let ((first (1- (line-number-at-pos (region-beginning) t)))
          (last (line-number-at-pos (1- (region-end)) t))
          (path (url-hexify-string (file-truename buffer-file-name) url-path-allowed-chars)))
      (list :context
            (vector (list :uri (concat "file://" path)
                          :range (list :start (list :line first :character 0)
                                       :end (list :line last :character 0))))))))

(defun roo-lsp-new (prompt)
  "Start a task described by PROMPT, about the selected lines if there are any."
  ;; What was typed would be lost where there is no server to take it.
  (interactive (progn (roo-lsp--server) (list (read-string "Describe a task: "))))
  (apply #'roo-lsp--execute "roo.newTask" :prompt prompt (roo-lsp--context)))

(defun roo-lsp-open ()
  "Show the newest task."
  (interactive)
  (roo-lsp--execute "roo.openTask"))

(defun roo-lsp-tree ()
  "Show the branches of the newest task."
  (interactive)
  (roo-lsp--execute "roo.showTree"))

(defun roo-lsp-browse ()
  "Open the page for a browser on what is at work."
  (interactive)
  (roo-lsp--execute "roo.openInBrowser"))

(defun roo-lsp-send (text)
  "Send TEXT to the agent of the newest task."
  (interactive (progn (roo-lsp--server) (list (read-string "Message the agent: "))))
  (roo-lsp--execute "roo.send" :text text))

(defun roo-lsp-answer (text)
  "Answer the question that waits with TEXT."
  (interactive (progn (roo-lsp--server) (list (read-string "Your answer: "))))
  (roo-lsp--execute "roo.answer" :text text))

(defun roo-lsp-show-diff ()
  "Show what needs permission."
  (interactive)
  (roo-lsp--execute "roo.showDiff"))

(defun roo-lsp-approve ()
  "Allow once what needs permission and has been shown."
  (interactive)
  (roo-lsp--execute "roo.approve"))

(defun roo-lsp-deny (text)
  "Refuse once what needs permission; the agent is told TEXT."
  (interactive (list (read-string "Why not, or what instead? ")))
  (if (string-blank-p text)
      (roo-lsp--execute "roo.deny")
    (roo-lsp--execute "roo.deny" :text text)))

(defun roo-lsp-cancel ()
  "Cancel the newest task."
  (interactive)
  (roo-lsp--execute "roo.cancel"))

(defun roo-lsp-resume ()
  "Resume the newest task."
  (interactive)
  (roo-lsp--execute "roo.resume"))

(defun roo-lsp-status ()
  "Report what is running and what waits."
  (interactive)
  (roo-lsp--execute "roo.status"))

(provide 'roo-lsp)
;;; roo-lsp.el ends here
