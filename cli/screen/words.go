package screen

import (
	"fmt"
	"strings"
	"unicode"

	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/cli/why"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// inWords describes a reason in a few words. A newer controller can have reasons that package why does not know. For
// such a reason, the result is the name of the reason, split into words.
func inWords(reason string) string {
	if words := why.Words(reason); words != "" {
		return words
	}
	var b strings.Builder
	for i, r := range printable.Line(reason) {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// exitOf describes how a container ended.
func exitOf(code int32, reason string) string {
	if reason == "" {
		return fmt.Sprintf("exit code %d", code)
	}
	return fmt.Sprintf("exit code %d (%s)", code, reason)
}

// howFailed describes a failure: which replica and rank failed, how, and on which node.
func (s Snapshot) howFailed(f batchv1beta1.ReplicaFailure) string {
	who := s.Job.ShortName(f.Replica)
	if f.Rank != nil {
		who += fmt.Sprintf(" (rank %d)", *f.Rank)
	}
	if f.Node != "" {
		who += " on " + f.Node
	}
	how := []string{f.Reason}
	if f.ExitCode != nil {
		how[0] = exitOf(*f.ExitCode, f.Reason)
	}
	switch {
	case f.RankSignal != "":
		how = append(how, f.RankSignal+" ended the rank")
	case f.RankExitCode != nil && f.ExitCode != nil && *f.RankExitCode != *f.ExitCode:
		how = append(how, fmt.Sprintf("exit code %d of the rank", *f.RankExitCode))
	}
	for _, d := range f.Devices {
		how = append(how, fmt.Sprintf("%s %s is unhealthy", d.Resource, d.ID))
	}
	if !f.Counted {
		how = append(how, "not counted")
	}
	return printable.Line(who + ": " + strings.Join(how, ", "))
}

// inWordsOfNode returns why a job avoids a node, in a few words.
func inWordsOfNode(reason string) string {
	switch reason {
	case batchv1beta1.ReasonNodeLost:
		return "was lost twice"
	case batchv1beta1.ReasonDeviceUnhealthy:
		return "had unhealthy devices twice"
	case batchv1beta1.ReasonDeviceTainted:
		return "had tainted devices twice"
	default:
		return printable.Line(reason)
	}
}
