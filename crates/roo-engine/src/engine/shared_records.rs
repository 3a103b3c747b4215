//! Records that a fork shares with the request that it was forked from. They stay in the other's log, and whoever reads
//! them reads them under the fork's own ids.

use super::event::Event;
use roo_durable::Record;
use roo_protocol::ids::TaskId;

/// Puts a record of a request's log under the request's own ids: a fork shares records of others.
pub(super) fn as_own(root: &TaskId, record: &mut Record<Event>) {
    let is_own = record.task_id.as_str().strip_prefix(root.as_str()).is_some_and(is_branch);
    if is_own {
        return;
    }
    let other = record.task_id.root();
    let rename = |id: &str| match id.strip_prefix(other.as_str()).filter(|rest| is_branch(rest)) {
        Some(rest) => format!("{root}{rest}"),
        None => id.to_owned(),
    };
    record.task_id = TaskId::new(rename(record.task_id.as_str()));
    record.event.rename_tasks(rename);
}

/// Returns whether this can follow the id of a request in the id of one of its tasks.
fn is_branch(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::ids::QuestionId;

    #[test]
    fn shared_records_name_the_tasks_of_the_fork() {
        let answered = |task: &str, question: &str| Record {
            seq: 7,
            at: 0,
            task_id: TaskId::new(task),
            event: Event::QuestionAnswered {
                question_id: QuestionId::new(question),
                by: "a".into(),
                text: None,
                images: vec![],
                mode: None,
                words: None,
            },
        };
        for (task, question, own_task, own_question) in [
            ("a", "a.q3", "f", "f.q3"),
            ("a.4", "a.4.q5", "f.4", "f.4.q5"),
            ("f.4", "f.4.q5", "f.4", "f.4.q5"),
            ("fa", "fa.q3", "f", "f.q3"),
        ] {
            let mut record = answered(task, question);
            as_own(&TaskId::new("f"), &mut record);
            assert_eq!(record, answered(own_task, own_question), "{task}");
        }
    }
}
