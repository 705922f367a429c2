"""What Polar's Slime bridge reads from each trace of a TaskResult: plain dictionaries in, training samples out."""


class LogprobError(ValueError):
    """Trainable tokens without aligned logprobs: only that session becomes a placeholder."""


def read_task(task, max_tokens=100_000):
    samples = []
    for index, session in enumerate(task["results"]):
        try:
            samples += read_session(session, index, max_tokens)
        except LogprobError:
            samples.append(placeholder(session, index))
    return samples


def read_session(session, index, max_tokens):
    status, trained, reward = judge(session)
    traces = session["trajectory"]["traces"]
    samples = [
        sample
        for number, trace in enumerate(traces)
        for sample in read_trace(trace, number, session, index, status, trained, reward, max_tokens)
    ]
    return samples or [placeholder(session, index)]


def judge(session):
    """(status or None, whether it trains, forced reward or None)"""
    trajectory = session["trajectory"]
    agent = trajectory["metadata"].get("agent_result", {})
    if session["status"] == "TIMEOUT":
        return ("TRUNCATED", True, 0.0) if agent.get("timeout_source") == "agent" else ("ABORTED", False, 0.0)
    if session["status"] == "ERROR" or session.get("error") or trajectory.get("error"):
        return "FAILED", False, 0.0
    return None, True, None


def read_trace(trace, number, session, index, status, trained, reward, max_tokens):
    prompt, response = trace["prompt_ids"], trace["response_ids"]
    room = max_tokens - len(prompt)
    if not prompt or not response or room <= 0:
        return []
    if len(trace["loss_mask"]) != len(response):
        raise ValueError("loss_mask and response_ids differ in length")
    # A row that nobody graded has no number for a reward: it is masked, unless the bridge has a reward of its own for it.
    trains = trained and (trace["reward"] is not None or reward is not None)
    mask = [bit if trains else 0 for bit in trace["loss_mask"][:room]]
    if 1 not in mask:
        return []
    logprobs = trace["response_logprobs"]
    if logprobs is None or len(logprobs) != len(response):
        raise LogprobError(session["session_id"])
    cut = len(response) > room or trace["finish_reason"] == "length"
    metadata = session["trajectory"]["metadata"]
    return [
        {
            "index": index,
            "rollout_id": index,
            "session_id": session["session_id"],
            "prompt": trace["prompt_messages"],
            "response": "".join(message.get("content") or "" for message in trace["response_messages"]),
            "tokens": prompt + response[:room],
            "response_length": len(mask),
            "loss_mask": mask,
            "rollout_log_probs": logprobs[:room],
            "reward": {"score": float(trace["reward"] if reward is None else reward)},
            "status": status or ("TRUNCATED" if cut else "COMPLETED"),
            "remove_sample": False,
            "metadata": {
                "polar": {
                    "node_id": session.get("node_id"),
                    "task_id": session["task_id"],
                    "session_status": session["status"],
                    "timing": session["timing"],
                    "trace_index": number,
                    "group_id": metadata.get("group_id"),
                    "policy_version": metadata.get("policy_version"),
                    "rollout_step": metadata.get("rollout_step"),
                }
            },
        }
    ]


def placeholder(session, index):
    return {
        "index": index,
        "rollout_id": index,
        "session_id": session["session_id"],
        "tokens": [0, 0],
        "response_length": 1,
        "loss_mask": [0],
        "rollout_log_probs": [0.0],
        "reward": {"score": 0.0},
        "status": "ABORTED",
        "remove_sample": True,
    }
