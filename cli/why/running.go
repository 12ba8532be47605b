package why

import (
	"fmt"

	"tensorstack.dev/jobs/common/report"
)

// replicasRunning returns the entry for a job that runs.
func replicasRunning(v view, _ condition) entry {
	running, all := v.counts()
	e := entry{cause: fmt.Sprintf("Its replicas run or have ended (%d of %d)", running, all), see: seeRunning}
	switch a := v.status.Aggregate; {
	case a == nil || a.Running != all:
	case all == 1:
		e.cause = "Its only replica runs"
	default:
		e.cause = fmt.Sprintf("All %d replicas run", all)
	}
	if p := v.status.Progress; p != nil && p.Summary != "" {
		e.cause += ", and the training is at " + quote(p.Summary)
		if p.EstimatedCompletionTime != nil && p.EstimatedCompletionTime.After(v.Now) {
			e.cause += ", which leaves about " + v.in(p.EstimatedCompletionTime.Time)
		}
	}
	e.cause += "."
	if r := v.status.RestartsInPlace; r != nil {
		e.cause += fmt.Sprintf(" Its processes have restarted in place %s", report.Count(int(r.Count), "time"))
		if len(r.Last) > 0 {
			e.cause += fmt.Sprintf(", the last time %s because %s", v.ago(r.Last[0].Time.Time), quote(r.Last[0].String()))
		}
		e.cause += "."
	}
	if silent := v.notReady(); len(silent) > 0 {
		e.cause += fmt.Sprintf(" Not ready, perhaps because the node does not answer: %s.", listed(silent))
	}
	e.next = []step{
		{purpose: "Follow the output of the job", line: "kubectl train logs {job} -f"},
		{purpose: "Watch the job", line: "kubectl train watch {job}"},
	}
	return e
}
