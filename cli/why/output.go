package why

import (
	"strings"

	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Limits of the output that an explanation shows.
const (
	maxLines = 10
	maxLine  = 160
)

// output returns the last lines of output of the replica that failed. It returns nil if the explanation is not about
// this failure, or if the program itself did not fail.
func (v view) output() []string {
	failure := v.Job.LastFailure()
	isShown := v.endedByFailure() || !v.status.Decided() && v.is(batchv1beta1.ConditionReplicaFailure)
	if failure == nil || !isShown || failure.ExitCode == nil || neverRan(failure.Reason) ||
		v.Job.GetDeletionTimestamp() != nil {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(failure.Message, "\n") {
		if line = cleanLine(line); strings.TrimSpace(line) != "" {
			lines = append(lines, printable.Shortened(line, maxLine))
		}
	}
	return lines[max(0, len(lines)-maxLines):]
}
